"""Who owns something: a tag that shows, even after a crash, whether its owner is alive."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from unstuck.observe.node.process import procfs

MARKER = "UNSTUCK_LAB_JOB"
"""The variable by which every process of a job can be found, whoever its parent is now."""
PREFIX = "unstuck-lab-"


def workplace() -> Path:
    """Make a temporary folder that a later sweep recognises as this process's."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{tag()}-"))


def tag() -> str:
    """Return the tag of this process: its pid and start time, so that a reused pid differs.

    Example:
        >>> alive(tag())
        True
    """
    found = procfs.stat(os.getpid())
    return f"{os.getpid()}-{found.started if found else 0}"


def alive(tagged: str) -> bool:
    """Tell whether the owner is alive, given its tag or anything that starts with it and a dash."""
    pid, started, *_ = [*tagged.split("-"), "", ""]
    if not (pid.isdigit() and started.isdigit()):
        return True  # not ours to judge
    found = procfs.stat(int(pid))
    return found is not None and found.started == int(started) and runs(int(pid))


def runs(pid: int) -> bool:
    """Say whether a process runs; one that waits only for its parent to notice its end does not."""
    found = procfs.stat(pid)
    return found is not None and found.state not in "ZX"


def marked(variable: str) -> Iterator[tuple[int, str]]:
    """Find all processes that have the variable in their environment, and its value."""
    prefix = f"{variable}=".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for word in (folder / "environ").read_bytes().split(b"\0"):
                if word.startswith(prefix):
                    yield int(folder.name), word[len(prefix) :].decode(errors="replace")
                    break
