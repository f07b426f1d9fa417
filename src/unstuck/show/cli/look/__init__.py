"""The commands that look at runs: what they do now, what went wrong, what they are like inside."""
