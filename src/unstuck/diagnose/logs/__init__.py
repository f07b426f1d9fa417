"""From log lines to a verdict."""
