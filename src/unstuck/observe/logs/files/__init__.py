"""Which files to read, and their bytes in chunks."""
