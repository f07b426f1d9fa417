"""The job as diagnosis sees it: where each rank stands, who hears whom, how patient to be."""
