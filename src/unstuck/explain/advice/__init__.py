"""What to do and what not to try: which situation it is, and the texts for it."""
