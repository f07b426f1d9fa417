"""Ranks that have ended: which one was first, why, and who only followed."""
