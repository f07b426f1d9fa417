"""The Python traceback above an exception's line, kept whole, whoever else writes in between."""

import re

from unstuck.model.rank import CodeLine
from unstuck.observe.logs.lines import prefix

MOST_LINES = 400

_START = "Traceback (most recent call last)"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python|<frozen|\btorch/|runpy\.py")


def innermost(lines: list[str], rank: int | None) -> CodeLine | None:
    """Return the last frame of the user's own code (else the last) above the last line.

    `lines` ends just before the exception; lines of other ranks between are passed over.

    Example:
        innermost(['Traceback (most recent call last):', '  File "t.py", line 3, in f'], None)
    """
    frames: list[CodeLine] = []
    code = ""
    for raw in reversed(lines[-MOST_LINES:]):
        head = prefix.parse(prefix.clean(raw).rstrip("\r"))
        if rank is not None and head.rank not in (None, rank):
            continue
        if _START in head.body:
            break
        if frame := _FRAME.match(head.body):
            user = not _LIBRARY.search(frame["file"])
            frames.append(
                CodeLine(frame["file"], int(frame["line"]), frame["function"], code, user=user)
            )
        code = head.body.strip()
    own = [frame for frame in frames if frame.user]
    return (own or frames or [None])[0]
