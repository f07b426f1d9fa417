"""What to look for in a line: literals, templates, phases."""
