"""What /proc shows of a process, without ptrace."""

import contextlib
import fcntl
import os
import struct
import time
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_PIDFD_GET_INFO, _PIDFD_INFO_EXIT = 0xC040FF0B, 1 << 3
_PIDFD_INFO = struct.Struct("<Q52xi")
"""The mask of fields, and the status that wait(2) would return; 64 bytes."""
_INTERPRETERS = ("python", "bash", "sh", "perl", "ruby", "node", "java")


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that we use."""

    name: str
    state: str
    parent: int
    ticks: int
    """Processor time used so far, in clock ticks."""
    started: int
    """Clock ticks after boot: distinguishes a reused pid from the old process."""
    rss: int
    core: int
    """The core it ran on last."""
    child_faults: int
    """Page faults of the children that have ended so far: grows whenever one does."""
    exit_status: int
    """As wait(2) would return it; only meaningful for a zombie."""


def disk_bytes(path: str) -> int:
    """Read from its io file what a process has read from and written to disks; 0 if hidden."""
    total = 0
    for line in read(path).splitlines():
        name, _, count = line.partition(": ")
        if name in ("read_bytes", "write_bytes"):
            total += int(count)
    return total


def command(path: str) -> str:
    """Name what a process runs, from its cmdline file: `python train.py`; empty if hidden."""
    words = [word for word in read(path).split("\0") if word]
    if not words:
        return ""
    program = words[0].rsplit("/", 1)[-1]
    if not program.startswith(_INTERPRETERS):
        return program
    script = next((word for word in words[1:] if not word.startswith("-") or word == "-c"), "")
    if not script:
        return program
    return f"{program} {script.rsplit('/', 1)[-1]}"[:60]


def stat(process: int | str) -> Stat | None:
    """Read one process, given by its pid or its stat file; None when it is gone.

    Example:
        >>> stat(os.getpid()).state
        'R'
    """
    text = read(f"/proc/{process}/stat" if isinstance(process, int) else process)
    # The command name is in brackets and may contain blanks and brackets itself.
    head, bracket, rest = text.rpartition(")")
    if not bracket:
        return None
    fields = rest.split()
    return Stat(
        name=head.partition("(")[2],
        state=fields[0],
        parent=int(fields[1]),
        ticks=int(fields[11]) + int(fields[12]),
        started=int(fields[19]),
        rss=int(fields[21]) * PAGE_SIZE,
        core=int(fields[36]) if len(fields) > 36 else -1,
        child_faults=int(fields[8]),
        exit_status=int(fields[49]) if len(fields) > 49 else 0,
    )


def lives(pid: int) -> bool:
    """Tell whether a process runs, and not only waits to be reaped."""
    found = stat(pid)
    return found is not None and found.state not in "ZX"


def age(pid: int) -> float | None:
    """Seconds since the process was started; None when it has ended."""
    found = stat(pid)
    if found is None or found.state in ("Z", "X"):
        return None
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - found.started / TICKS)


def thread_cpu(pid: int) -> float:
    """CPU seconds used so far by the main thread; 0 when it is gone."""
    found = stat(f"/proc/{pid}/task/{pid}/stat")
    return found.ticks / TICKS if found else 0.0


def thread_delay(pid: int) -> float | None:
    """Seconds the main thread was runnable without a core so far; None where not counted."""
    fields = read(f"/proc/{pid}/task/{pid}/schedstat").split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else None


def cores(pid: int) -> tuple[int, ...]:
    """Return the cores the main thread may use; empty where it may use all, or is gone."""
    with contextlib.suppress(OSError):
        allowed = os.sched_getaffinity(pid)
        return tuple(sorted(allowed)) if len(allowed) < (os.cpu_count() or 1) else ()
    return ()


def waits_in(pid: int) -> str:
    """Name of the kernel function the main thread sleeps in; empty when running or hidden."""
    name = read(f"/proc/{pid}/wchan")
    return "" if name in ("", "0") else name


def exit_code(pid: int) -> int | None:
    """Exit code of a process that has ended and was not reaped yet, as subprocess writes it."""
    found = stat(pid)
    if found is None or found.state not in ("Z", "X"):
        return None
    return os.waitstatus_to_exitcode(found.exit_status)


def exit_code_of(pidfd: int) -> int | None:
    """The same of a process that was reaped already, where the kernel keeps it (since 6.15)."""
    info = bytearray(_PIDFD_INFO.size)
    _PIDFD_INFO.pack_into(info, 0, _PIDFD_INFO_EXIT, 0)
    with contextlib.suppress(OSError):
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info)
        fields, status = _PIDFD_INFO.unpack(info)
        return os.waitstatus_to_exitcode(status) if fields & _PIDFD_INFO_EXIT else None
    return None


def catches(pid: int, number: int) -> bool:
    """Tell whether the main thread has a handler for that signal now, and does not block it."""
    status = read(f"/proc/{pid}/status")
    _, _, caught = status.partition("SigCgt:")
    _, _, blocked = status.partition("SigBlk:")
    if not caught or not blocked or number <= 0:
        return False
    open_to = int(caught.split()[0], 16) & ~int(blocked.split()[0], 16)
    return bool(open_to >> (number - 1) & 1)


def environ(pid: int) -> dict[str, str]:
    """Environment the process was started with; empty when it may not be read."""
    pairs = read(f"/proc/{pid}/environ").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def read(path: str) -> str:
    """Return a file's text; empty where it cannot be read."""
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        return file.read().strip()
    return ""
