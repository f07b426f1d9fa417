"""Lines: prefixes, tracebacks, and lines that a terminal has wrapped."""
