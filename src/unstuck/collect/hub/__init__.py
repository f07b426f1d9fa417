"""The hub: one process per job, which gathers what the agents send."""
