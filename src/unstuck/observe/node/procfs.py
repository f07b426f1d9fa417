"""What /proc tells about a process, without ptrace."""

import contextlib
import os
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that we use."""

    state: str
    parent: int
    started: int
    """Clock ticks after boot: tells a reused pid from the old process."""
    rss: int
    exit_status: int
    """As wait(2) would return it; only meaningful for a zombie."""


def stat(pid: int) -> Stat | None:
    """Read one process; None when it is gone.

    Example:
        >>> stat(os.getpid()).state
        'R'
    """
    fields = _fields(f"/proc/{pid}/stat")
    if fields is None:
        return None
    return Stat(
        state=fields[0],
        parent=int(fields[1]),
        started=int(fields[19]),
        rss=int(fields[21]) * PAGE_SIZE,
        exit_status=int(fields[49]) if len(fields) > 49 else 0,
    )


def thread_cpu(pid: int) -> float:
    """CPU seconds used so far by the main thread; 0 when it is gone."""
    fields = _fields(f"/proc/{pid}/task/{pid}/stat")
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def waits_in(pid: int) -> str:
    """Name of the kernel function the main thread sleeps in; empty when running or hidden."""
    name = _read(f"/proc/{pid}/wchan")
    return "" if name in ("", "0") else name


def exit_code(pid: int) -> int | None:
    """Exit code of a process that has ended and was not reaped yet, as subprocess writes it."""
    found = stat(pid)
    if found is None or found.state not in ("Z", "X"):
        return None
    return os.waitstatus_to_exitcode(found.exit_status)


def environ(pid: int) -> dict[str, str]:
    """Environment the process was started with; empty when it may not be read."""
    pairs = _read(f"/proc/{pid}/environ").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def _fields(path: str) -> list[str] | None:
    text = _read(path)
    # The command name is in brackets and may hold blanks and brackets itself.
    return text[text.rindex(")") + 2 :].split() if ")" in text else None


def _read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        return file.read().strip()
    return ""
