"""What a rank printed last, where its output goes to a file anyway.

That is so with `torchrun --log-dir DIR --redirects 3` (or `--tee 3`), under Slurm, and after
`> train.log`. Nothing is redirected for it, and a terminal or pipe is left alone.
"""

import contextlib
import json
import os
import stat
from typing import Any, cast

MOST_BYTES = 16 << 10
"""Read from the end of a file."""
MOST_LINES = 12
LONGEST = 300
_OUTPUTS = (2, 1)
_NOISE = ("frame #", "<unknown function>")
"""Lines of C++ stacks, which push out what was said before them."""


class Printed:
    """The end of one rank's output files, read again only when they have grown.

    Example:
        Printed(4711).last()  # ("[rank2]: ValueError: bad batch",)
    """

    def __init__(self, pid: int) -> None:
        """Note the files while the process lives."""
        found = (_regular_file(f"/proc/{pid}/fd/{number}") for number in _OUTPUTS)
        self._files = tuple(dict.fromkeys(path for path in found if path))
        self._seen: tuple[tuple[int, int], ...] = ()
        self._lines: tuple[str, ...] = ()

    def last(self, error_file: str = "") -> tuple[str, ...]:
        """Return the last lines of the files, and what torch wrote to its error file."""
        files = [*([error_file] if error_file else []), *self._files]
        seen = tuple(_version(path) for path in files)
        if seen != self._seen:
            self._seen = seen
            found: list[str] = _of_error_file(error_file) if error_file else []
            for path in self._files:
                found += _last_lines(path)
            self._lines = tuple(dict.fromkeys(found))
        return self._lines


def _regular_file(link: str) -> str:
    with contextlib.suppress(OSError):
        path = os.readlink(link)
        if stat.S_ISREG(os.stat(link).st_mode) and os.path.isfile(path):
            return path
    return ""


def _version(path: str) -> tuple[int, int]:
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_size, found.st_mtime_ns
    return 0, 0


def _last_lines(path: str) -> list[str]:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_BYTES))
        return _lines_of(file.read(MOST_BYTES).decode(errors="replace"))
    return []


def _lines_of(text: str) -> list[str]:
    lines = (line.rstrip().rsplit("\r", 1)[-1].strip() for line in text.split("\n"))
    told = [line[:LONGEST] for line in lines if line and not any(n in line for n in _NOISE)]
    return told[-MOST_LINES:]


def _of_error_file(path: str) -> list[str]:
    """Return the message in the file that `torch.distributed.elastic` writes of a failure."""
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        found: Any = json.loads(file.read(1 << 20))
        message: Any = cast("dict[str, Any]", found).get("message") if found else None
        if isinstance(message, dict):
            message = cast("dict[str, Any]", message).get("message")
        return _lines_of(message) if isinstance(message, str) else []
    return []
