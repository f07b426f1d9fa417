"""What a stream can show: how wide it is, and whether it has colour."""

import contextlib
import os
from collections.abc import Mapping
from typing import NamedTuple, TextIO

COLUMNS = 80
"""Of a file or a pipe."""


class Screen(NamedTuple):
    """Where a report is shown."""

    width: int
    colour: bool


def screen(stream: TextIO, environ: Mapping[str, str] = os.environ) -> Screen:
    """Describe a stream: colour only on a terminal that shows it.

    NO_COLOR (set and not empty) and TERM=dumb switch colour off; FORCE_COLOR says that what
    is written to a pipe or file will be shown on a terminal, COLUMNS how wide that is.
    """
    forced = bool(environ.get("FORCE_COLOR"))
    plain = bool(environ.get("NO_COLOR")) or (environ.get("TERM") == "dumb" and not forced)
    columns = environ.get("COLUMNS", "")
    width = int(columns) if forced and columns.isdecimal() else COLUMNS
    if stream.isatty():
        with contextlib.suppress(OSError):
            width = os.get_terminal_size(stream.fileno()).columns
    return Screen(width, colour=(forced or stream.isatty()) and not plain)
