"""What one agent sends: the full state of its node, never a difference."""

from msgspec import Struct

from unstuck.model.host import PeerLink, Pressure
from unstuck.model.rank import RankState


class Frame(Struct, frozen=True, omit_defaults=True):
    """The state of one node's ranks. A hub that lost everything is whole after one frame."""

    node: str
    """Unique per agent: host name and the launcher's pid."""
    host: str
    number: int
    sent_at: float
    """Unix time by the node's own clock."""
    ranks: tuple[RankState, ...] = ()
    pressure: Pressure = Pressure()
    links: tuple[PeerLink, ...] = ()
    """Its own view of the other agents of the job."""
    cut_off_for: float = 0.0
    """How long it had no hub until just now: told once after it found the hub again."""
    unheard: tuple[str, ...] = ()
    """Hosts from which nothing came while it was cut off."""
    heard: tuple[str, ...] = ()
    """Hosts that it heard all the time while it was cut off."""
    nodes_wanted: int = 0
    """How many nodes the launch command waits for before it starts ranks; 0 if it does not say."""
    empty_for: float = 0.0
    """How long the launch command has run without any rank having shown itself."""
    launcher_exit: int | None = None
    """How the launch command ended, as an exit code of a rank is written; None while it runs."""
    launcher_gone_for: float = 0.0
    """Since it ended."""
    stopping: bool = False
    """The user asked for the end (Ctrl-C, SIGTERM): deaths are wanted now."""
    ended: bool = False
    """The launch command has ended; this is the last frame."""
