"""What a rank's main thread waits for on its own host, and what its children do.

Only /proc is read, and no file that a rank has open is touched: on a file system that hangs
even a look at a file's size would hang as well.
"""

import contextlib
import os
from collections.abc import Iterable

from unstuck.model.neighbour import HostWait, KernelWait, Neighbour, kernel_wait
from unstuck.observe.node.process import procfs

_EVERY = 1.0
"""Seconds between two readings: the cpu time of the children is counted over at least that."""
_MOST_CHILDREN = 32
_MOST_PARENTS = 8
_STANDARD = {1: "its standard output", 2: "its standard error"}
_READ_ONLY, _WRITE_ONLY = os.O_RDONLY, os.O_WRONLY


class HostWaitReader:
    """Follows what one rank waits for, from the moment on at which somebody asks."""

    def __init__(self, pid: int, now: float) -> None:
        """Find the children; some milliseconds for a process with many threads."""
        self._pid = pid
        self._children = children(pid)
        self._used: dict[int, tuple[float, float]] = {}
        self._at = now
        self._found = self._read(now)

    def look(self, now: float) -> HostWait:
        """Return what is known, read again when it is older than a second."""
        if now - self._at >= _EVERY:
            self._at = now
            self._found = self._read(now)
        return self._found

    def _read(self, now: float) -> HostWait:
        kind, target, pids = _wait_of(self._pid, self._children)
        seen = {pid: self._neighbour(pid, now) for pid in {*pids, *self._children}}
        return HostWait(
            kind=kind,
            target=target,
            by=tuple(one for pid in pids if (one := seen[pid])),
            children=tuple(one for pid in self._children if (one := seen[pid])),
            cpu=self._cpu(self._pid, now),
        )

    def _neighbour(self, pid: int, now: float) -> Neighbour | None:
        found = procfs.stat(pid)
        if found is None:
            return None
        name = procfs.command(f"/proc/{pid}/cmdline") or procfs.read(f"/proc/{pid}/comm")
        return Neighbour(pid, name, found.state, _waits(pid), self._cpu(pid, now))

    def _cpu(self, pid: int, now: float) -> float | None:
        threads = _threads(pid)
        if not threads:
            return None
        used = sum(_thread_seconds(pid, thread) for thread in threads)
        then, before = self._used.get(pid, (now, used))
        self._used[pid] = (now, used)
        return round(max(0.0, used - before) / (now - then), 3) if now > then else None


def children(pid: int) -> tuple[int, ...]:
    """List the child processes of all threads of a process, the oldest first.

    Example:
        children(os.getpid())  # (4711, 4712)
    """
    found: set[int] = set()
    for thread in _threads(pid):
        found.update(map(int, procfs.read(f"/proc/{pid}/task/{thread}/children").split()))
    return tuple(sorted(found)[:_MOST_CHILDREN])


def _wait_of(pid: int, kids: tuple[int, ...]) -> tuple[str, str, tuple[int, ...]]:
    """Return the kind of wait, its target, and the processes at the other side of it."""
    arguments = _arguments(pid)
    match kernel_wait(procfs.waits_in(pid)):
        case KernelWait.FILE_LOCK:
            return "lock", *_lock_of(pid)
        case KernelWait.PIPE_WRITE:
            ends = (*kids, *_parents(pid))
            return "full", *_pipe_of(pid, arguments, ends, not_in_mode=_WRITE_ONLY)
        case KernelWait.PIPE_READ:
            return "data", *_pipe_of(pid, arguments, kids, not_in_mode=_READ_ONLY)
        case KernelWait.CHILD:
            return "child", "", _awaited(arguments, kids)
        case _:
            return "", "", ()


def _awaited(arguments: tuple[int, ...], kids: tuple[int, ...]) -> tuple[int, ...]:
    # wait4 has the pid in front, waitid behind the kind of its id.
    named = tuple(one for one in kids if one in arguments[:2])
    return named or (kids if len(kids) == 1 else ())


def _lock_of(pid: int) -> tuple[str, tuple[int, ...]]:
    lines = [line.split() for line in procfs.read("/proc/locks").splitlines()]
    wanted = next((w for w in lines if w[1:2] == ["->"] and w[5:6] == [str(pid)]), None)
    if wanted is None:
        return "", ()
    holders = (w[4] for w in lines if w[0] == wanted[0] and w[1] != "->")
    inode = wanted[6].rsplit(":", 1)[-1]
    return _file_of(pid, inode), tuple(int(one) for one in holders if int(one) > 0)


def _file_of(pid: int, inode: str) -> str:
    """Name the open file with this inode; the one that the system call names comes first."""
    for number in dict.fromkeys((*_arguments(pid)[:1], *_open_files(pid))):
        if _detail(pid, number, "ino:") == inode:
            return _link(pid, number)
    return ""


def _pipe_of(
    pid: int, arguments: tuple[int, ...], others: Iterable[int], *, not_in_mode: int
) -> tuple[str, tuple[int, ...]]:
    """Name a pipe, and who has its other end: any mode but the one that the rank itself uses."""
    if not arguments or not (link := _link(pid, arguments[0])):
        return "", ()
    name = "" if link.startswith("pipe:") else link
    found = tuple(one for one in others if _holds(one, link, not_in_mode))
    return _STANDARD.get(arguments[0], name), found


def _holds(pid: int, link: str, not_in_mode: int) -> bool:
    return any(
        int(_detail(pid, number, "flags:") or "0", 8) & os.O_ACCMODE != not_in_mode
        for number in _open_files(pid)
        if _link(pid, number) == link
    )


def _parents(pid: int) -> list[int]:
    found: list[int] = []
    while len(found) < _MOST_PARENTS and (stat := procfs.stat(pid)) and stat.parent > 1:
        pid = stat.parent
        found.append(pid)
    return found


def _waits(pid: int) -> tuple[str, ...]:
    found = [procfs.read(f"/proc/{pid}/task/{thread}/wchan") for thread in _threads(pid)]
    return () if any(one in ("", "0") for one in found) else tuple(dict.fromkeys(found))


def _thread_seconds(pid: int, thread: int) -> float:
    fields = procfs.read(f"/proc/{pid}/task/{thread}/schedstat").split()
    return int(fields[0]) / 1e9 if fields else 0.0


def _threads(pid: int) -> list[int]:
    return _numbers(f"/proc/{pid}/task")


def _open_files(pid: int) -> list[int]:
    return _numbers(f"/proc/{pid}/fd")


def _numbers(folder: str) -> list[int]:
    with contextlib.suppress(OSError):
        return sorted(int(name) for name in os.listdir(folder))
    return []


def _arguments(pid: int) -> tuple[int, ...]:
    """Return the arguments of the system call the main thread is in; empty where hidden."""
    fields = procfs.read(f"/proc/{pid}/syscall").split()
    return tuple(int(field, 16) for field in fields[1:7])


def _link(pid: int, number: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{number}")
    return ""


def _detail(pid: int, number: int, field: str) -> str:
    words = procfs.read(f"/proc/{pid}/fdinfo/{number}").split()
    return words[words.index(field) + 1] if field in words else ""
