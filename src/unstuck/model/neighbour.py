"""Whom a rank waits for on its own host: a file lock, a pipe, or a child process."""

import re
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from unstuck.model.bounds import Number, Whole


class KernelWait(StrEnum):
    """What a thread waits for, by the kernel function that it sleeps in."""

    LOCK = "lock"
    """A futex: a lock, a condition or another thread."""
    TIMER = "timer"
    CHILD = "child"
    """For a child process to exit."""
    FILE_LOCK = "file lock"
    PIPE_READ = "pipe read"
    PIPE_WRITE = "pipe write"
    SOCKET = "socket"
    ANY = "any"
    """For one of several files: poll, select, epoll."""
    TERMINAL = "terminal"
    OTHER = "other"
    HIDDEN = "hidden"
    """The kernel does not say, or the thread runs."""


_FUNCTIONS = {
    KernelWait.LOCK: r"_*futex_\w+",
    KernelWait.TIMER: r"\w*nanosleep\w*|common_nsleep\w*",
    KernelWait.CHILD: r"_*do_wait(id)?|kernel_wait(4|id)",
    KernelWait.FILE_LOCK: r"(do_)?(locks?|flock|posix_lock)_(lock|file|inode)\w*"
    r"|fcntl_setlk\w*|\w*sys_flock",
    KernelWait.PIPE_READ: r"(anon_)?pipe_(read|wait|wait_readable)|wait_for_partner",
    KernelWait.PIPE_WRITE: r"(anon_)?pipe_(write|wait_writable)",
    KernelWait.SOCKET: r"unix_stream_\w+|sk_(wait|stream_wait)_\w+|tcp_recv\w*|_*skb_wait_\w+"
    r"|inet_csk_\w+|wait_woken",
    KernelWait.ANY: r"(do_)?(sys_)?(poll|select)(_\w+)?|core_sys_select|(do_)?ep(oll)?_\w+",
    KernelWait.TERMINAL: r"(n_)?tty_read",
}
_WAITS = {kind: re.compile(pattern) for kind, pattern in _FUNCTIONS.items()}


@lru_cache(512)
def kernel_wait(function: str) -> KernelWait:
    """Read a name of `/proc/PID/wchan`, always as a whole: names contain each other.

    Example:
        >>> kernel_wait("do_wait"), kernel_wait("futex_do_wait")
        (<KernelWait.CHILD: 'child'>, <KernelWait.LOCK: 'lock'>)
    """
    # Compilers mark the parts of a function that they split: `do_wait.part.0`.
    name = function.partition(".")[0]
    if name in ("", "0"):
        return KernelWait.HIDDEN
    found = (kind for kind, pattern in _WAITS.items() if pattern.fullmatch(name))
    return next(found, KernelWait.OTHER)


class Neighbour(Struct, frozen=True, omit_defaults=True):
    """Another process of the host that a rank may wait for."""

    pid: Whole
    name: str = ""
    state: str = "?"
    """The letter of /proc: R S D T t Z X."""
    waits: tuple[str, ...] = ()
    """The kernel functions its threads sleep in, each once; empty where one of them runs."""
    cpu: Number | None = None
    """Cores that all its threads used since the last look; None at the first."""


class HostWait(Struct, frozen=True, omit_defaults=True):
    """What the main thread waits for as the kernel tells it, once evidence was asked for."""

    kind: str = ""
    """`lock` of a file, `full` pipe that it writes, `data` from a pipe, `child` that must end;
    empty for anything else."""
    target: str = ""
    """The file of the lock or pipe, where it has a name."""
    by: tuple[Neighbour, ...] = ()
    """Who holds the lock, has the other end of the pipe, or is the child."""
    children: tuple[Neighbour, ...] = ()
    """All child processes of the rank, also those it does not wait for."""
    cpu: Number | None = None
    """Cores that all threads of the rank itself used since the last look; None at the first."""
