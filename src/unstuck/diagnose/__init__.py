"""From a snapshot of the job to a verdict: pure functions, no I/O, no clock."""
