"""What one agent sends: the full state of its node, never a difference."""

from msgspec import Struct

from unstuck.model.bounds import Moment, Number, Ranks, Whole
from unstuck.model.host import PeerLink, Pressure
from unstuck.model.rank import RankState


class NodeReport(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an agent says of its node; a frame carries it, the snapshot keeps it."""

    pressure: Pressure = Pressure()
    links: tuple[PeerLink, ...] = ()
    """Its own view of the other agents of the job; as old as the frame."""
    cut_off_for: Number = 0.0
    """How long it had no hub until just now; it was alive all the time."""
    unheard: tuple[str, ...] = ()
    """Hosts from which nothing arrived at some time while it was cut off."""
    heard: tuple[str, ...] = ()
    """Hosts that it heard all the time while it was cut off."""
    nodes_wanted: Ranks = 0
    """How many nodes the launch command waits for before it starts ranks; 0 if it does not say."""
    empty_for: Number = 0.0
    """How long the launch command has run without any rank."""
    launcher_exit: Whole | None = None
    """How the launch command ended: exit status, or minus the signal; None while it runs."""
    launcher_gone_for: Number = 0.0
    """Since it ended."""
    stopping: bool = False
    """The user asked for the end (Ctrl-C, SIGTERM): deaths are expected now."""
    ended: bool = False
    """The launch command has ended; this is the last frame."""


class Frame(NodeReport, frozen=True, omit_defaults=True):
    """The state of one node's ranks. A hub that lost everything is whole after one frame."""

    node: str
    """Unique per agent: host name and the launcher's pid."""
    host: str
    number: Whole
    sent_at: Moment
    """Unix time by the node's own clock."""
    ranks: tuple[RankState, ...] = ()
