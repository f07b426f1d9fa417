"""What a job's timeouts were set by: command line, environment, script, scheduler."""
