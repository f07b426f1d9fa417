"""The whole job at one moment: the only input of diagnosis."""

from msgspec import Struct

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
    pressure: Pressure = Pressure()
    links: tuple[PeerLink, ...] = ()
    """Its own view of the other agents; as old as its last frame."""
    cut_off_for: float = 0.0
    """It came back after this long without the hub, alive all the time."""
    stopping: bool = False
    ended: bool = False


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """All nodes and all ranks of the newest attempt, merged from the last frames."""

    taken_at: float
    """Unix time by the hub's clock."""
    nodes: tuple[NodeState, ...] = ()
    ranks: tuple[RankState, ...] = ()
    attempt: int = 0
    """0 for the first start, then one more for every restart seen."""
    world_size: int = 0
