"""The whole job at one moment: the only input of diagnosis."""

from msgspec import Struct

from unstuck.model.controls import Controls
from unstuck.model.host import PeerLink, Pressure
from unstuck.model.rank import RankState


class NodeState(Struct, frozen=True, omit_defaults=True):
    """What the hub knows of one agent."""

    node: str
    host: str
    silent_for: float = 0.0
    """Since its last frame arrived."""
    disconnected: bool = False
    """Its connection was closed by the other side: the agent died, but its host answered."""
    kernel_answers: bool = False
    """It is silent, but its kernel confirms what is sent to it: only its processes do not run."""
    steady_for: float | None = None
    """For how long its frames had come without a gap when the last one came."""
    pressure: Pressure = Pressure()
    links: tuple[PeerLink, ...] = ()
    """Its own view of the other agents; as old as its last frame."""
    cut_off_for: float = 0.0
    """It came back after this long without the hub, alive all the time."""
    unheard: tuple[str, ...] = ()
    """Hosts from which nothing came to it in that time."""
    heard: tuple[str, ...] = ()
    """Hosts that it heard all the time."""
    nodes_wanted: int = 0
    """How many nodes its launch command waits for; 0 if it does not say."""
    empty_for: float = 0.0
    """How long its launch command has run without any rank having shown itself."""
    launcher_exit: int | None = None
    """How its launch command ended: exit status, or minus the signal; None while it runs."""
    launcher_gone_for: float = 0.0
    stopping: bool = False
    ended: bool = False
    suspect_after: float = 3.0
    """So long a silence is not usual for it: learned from how its frames came until then."""


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """All nodes and all ranks of the newest attempt, merged from the last frames."""

    taken_at: float
    """Unix time by the hub's clock."""
    nodes: tuple[NodeState, ...] = ()
    ranks: tuple[RankState, ...] = ()
    attempt: int = 0
    """0 for the first start, then one more for every restart seen."""
    world_size: int = 0
    hub: str = ""
    """The host on which this was put together."""
    controls: Controls = Controls()
    """What people asked of the watchers: `unstuck ctl`."""
