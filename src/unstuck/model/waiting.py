"""Whom a rank waits for on its own host: a file lock, a pipe, or a child process."""

from msgspec import Struct


class Neighbour(Struct, frozen=True, omit_defaults=True):
    """Another process of the host that a rank may wait for."""

    pid: int
    name: str = ""
    state: str = "?"
    """The letter of /proc: R S D T t Z X."""
    waits: tuple[str, ...] = ()
    """The kernel functions its threads sleep in, each once; empty where one of them runs."""
    cpu: float | None = None
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
    cpu: float | None = None
    """Cores that all threads of the rank itself used since the last look; None at the first."""
