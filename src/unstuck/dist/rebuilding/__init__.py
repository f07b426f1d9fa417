"""Leaving a process group without a hang, and making a new one from its survivors."""
