"""What a living rank that others wait for is doing instead."""
