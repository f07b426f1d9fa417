"""Slow, not stuck: stragglers, and hosts that starve them."""
