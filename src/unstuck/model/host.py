"""What is known of a host beside its ranks: pressure on it, and whom it can reach."""

from msgspec import Struct

from unstuck.model.bounds import Number, Whole


class OtherProcess(Struct, frozen=True, omit_defaults=True):
    """A process that is not part of the job and takes much of the host."""

    pid: Whole
    name: str
    cpu: Number = 0.0
    """Cores it uses, 1.0 for one whole core."""
    core: Whole = -1
    """The core it ran on last."""
    disk: Whole = 0
    """Bytes a second that it reads from disks and writes to them; 0 also where it is not told."""


class Pressure(Struct, frozen=True, omit_defaults=True):
    """How far the host lacks something, as shares of the last seconds from 0 to 1."""

    cpu: Number = 0.0
    """Some task was runnable and had no core (pressure stall, `some`)."""
    io: Number = 0.0
    memory: Number = 0.0
    throttled: Number = 0.0
    """The cgroup of the ranks was held back by its cpu limit."""
    steal: Number = 0.0
    """The hypervisor gave the cores to somebody else."""
    others: tuple[OtherProcess, ...] = ()
    """The heaviest processes outside the job, heaviest first."""
    unseen: tuple[str, ...] = ()
    """What this host does not tell: `pressure`, `steal`, `delays` (see `Process.delayed`)."""


class PeerLink(Struct, frozen=True, omit_defaults=True):
    """What one agent knows of its direct way to another, apart from the hub."""

    node: str
    host: str
    heard_for: Number | None = None
    """Seconds since anything came from it; None if nothing ever did."""
    answered_for: Number | None = None
    """Seconds since it last answered us: a way there and back."""
    round_trip: Number | None = None
    suspect: bool = False
    """Silent for longer than it ever is while it lives, judged by how it came until then."""
