"""One line for the people who watch the job, apart from the job's own output."""

import sys


def say(text: str) -> None:
    """Write one line to stderr, marked as ours.

    Example:
        say("the job moves again")
    """
    sys.stderr.write(f"unstuck: {text}\n")
    sys.stderr.flush()
