"""Whose something is: a tag that still tells, after a crash, whether its maker lives."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from unstuck.observe.node import procfs


def tag() -> str:
    """Give the tag of this process: its pid and when it started, so that a reused pid differs.

    Example:
        >>> alive(tag())
        True
    """
    found = procfs.stat(os.getpid())
    return f"{os.getpid()}-{found.started if found else 0}"


def alive(tagged: str) -> bool:
    """Say whether the maker lives, given its tag or anything that begins with it and a dash."""
    pid, started, *_ = [*tagged.split("-"), "", ""]
    if not (pid.isdigit() and started.isdigit()):
        return True  # not ours to judge
    found = procfs.stat(int(pid))
    return found is not None and found.started == int(started) and found.state not in "ZX"


def marked(variable: str) -> Iterator[tuple[int, str]]:
    """Find every living process that has the variable in its environment, and its value."""
    prefix = f"{variable}=".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for word in (folder / "environ").read_bytes().split(b"\0"):
                if word.startswith(prefix):
                    yield int(folder.name), word[len(prefix) :].decode(errors="replace")
                    break
