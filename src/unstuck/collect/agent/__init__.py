"""The agent: one process per node, beside the ranks."""
