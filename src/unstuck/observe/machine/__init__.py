"""What `unstuck doctor` looks at on one machine, before a job runs on it."""
