"""From a verdict to words: what to do and what not to try."""
