"""From observations to one snapshot of the job, and to a bundle on disk."""
