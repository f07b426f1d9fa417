"""What is known of a host beside its ranks: pressure on it, and whom it can reach."""

from msgspec import Struct


class OtherProcess(Struct, frozen=True, omit_defaults=True):
    """A process that is not part of the job and takes much of the host."""

    pid: int
    name: str
    cpu: float = 0.0
    """Cores it uses, 1.0 for one whole core."""
    core: int = -1
    """The core it ran on last."""
    disk: int = 0
    """Bytes a second that it reads from disks and writes to them; 0 also where it is not told."""


class Pressure(Struct, frozen=True, omit_defaults=True):
    """How far the host lacks something, as shares of the last seconds from 0 to 1."""

    cpu: float = 0.0
    """Some task was runnable and had no core (pressure stall, `some`)."""
    io: float = 0.0
    memory: float = 0.0
    throttled: float = 0.0
    """The cgroup of the ranks was held back by its cpu limit."""
    steal: float = 0.0
    """The hypervisor gave the cores to somebody else."""
    others: tuple[OtherProcess, ...] = ()
    """The heaviest processes outside the job, heaviest first."""
    unseen: tuple[str, ...] = ()
    """What this host does not tell: `pressure`, `steal`, `delays` (see `Process.delayed`)."""


class PeerLink(Struct, frozen=True, omit_defaults=True):
    """What one agent knows of its direct way to another, apart from the hub."""

    node: str
    host: str
    heard_for: float | None = None
    """Seconds since anything came from it; None if nothing ever did."""
    answered_for: float | None = None
    """Seconds since it last answered us: a way there and back."""
    round_trip: float | None = None
    suspect: bool = False
    """Silent for longer than it ever is while it lives, judged by how it came until then."""
