"""A job that was not started by us, looked at from outside: its processes, stacks and sleep."""
