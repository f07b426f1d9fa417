"""Who waits for whom, and where the waiting ends."""
