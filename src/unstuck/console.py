"""One line for the people who watch the job, apart from the job's own output."""

import re
import sys

LONGEST = 2000
"""Characters of a line; a longer one was not written for people."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
ACTS_ON_TERMINALS = re.compile(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Of these, what JSON leaves as it is."""


def clean(text: str) -> str:
    """Return the text as one line without control characters: a log must not move the cursor.

    Example:
        clean("red \\x1b[31m\\nalert")   # "red [31m alert"
    """
    return _CONTROL.sub("", " ".join(text.split()))


def shown(text: str) -> str:
    """Return the text as it may be shown: clean, and not longer than a person reads.

    Example:
        shown("a file named \\x1b]0;title\\x07")   # "a file named ]0;title"
    """
    return clean(text)[:LONGEST].encode(errors="backslashreplace").decode()


def say(text: str) -> None:
    """Write one line to stderr, marked as ours.

    Example:
        say("the job is making progress again")
    """
    sys.stderr.write(f"unstuck: {shown(text)}\n")
    sys.stderr.flush()
