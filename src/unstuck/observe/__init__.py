"""Observing: inside the rank (probe), beside it (node)."""
