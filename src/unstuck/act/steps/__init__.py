"""The steps of a plan, one a file: wait, checkpoint, restart, exclude, stop, notify."""
