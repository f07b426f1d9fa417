"""Hosts that are silent, cut off, or back again."""
