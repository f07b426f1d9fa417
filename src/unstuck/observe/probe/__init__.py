"""Inside the rank: standard library only, never raises, never blocks the training thread."""
