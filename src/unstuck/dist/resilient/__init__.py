"""`@unstuck.resilient`: the survivors of a loss continue in the same processes."""
