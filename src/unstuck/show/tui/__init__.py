"""`unstuck top`: a job live in a terminal."""
