"""Log files as bytes in chunks, and lines with the rank, the host and the time of their prefix."""
