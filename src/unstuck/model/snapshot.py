"""The whole job at one moment: the only input of diagnosis."""

from msgspec import Struct

from unstuck.model.bounds import Moment, Number, Ranks, Whole
from unstuck.model.controls import Controls
from unstuck.model.frame import NodeReport
from unstuck.model.rank import RankState

SILENT_AFTER = 3.0
"""Seconds without a frame after which a node is silent where nothing was learned of it: three
frames are missing. A verdict never calls a node silent sooner unless a peer misses it as well."""


class NodeState(NodeReport, frozen=True, omit_defaults=True):
    """What the hub knows of one agent; see `model/liveness.py` for what follows from it."""

    node: str
    host: str
    silent_for: Number = 0.0
    """Since its last frame arrived."""
    disconnected: bool = False
    """Its connection was closed by the other side: the agent died, but its host answered."""
    kernel_answers: bool = False
    """It is silent, but its kernel acknowledges what is sent: only its processes do not run."""
    steady_for: Number | None = None
    """For how long its frames had arrived without a gap when the last one did."""
    suspect_after: Number = SILENT_AFTER
    """A silence longer than this is unusual for it: learned from how its frames arrived."""


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """All nodes and all ranks of the newest attempt, merged from the last frames."""

    taken_at: Moment
    """Unix time by the hub's clock."""
    nodes: tuple[NodeState, ...] = ()
    ranks: tuple[RankState, ...] = ()
    attempt: Whole = 0
    """0 for the first start, then one more for every restart seen."""
    world_size: Ranks = 0
    hub: str = ""
    """The host on which this was put together."""
    controls: Controls = Controls()
    """What people asked of the watchers: `unstuck ctl`."""
    shows_life: bool = False
    """The agents look for signs of life, so a rank without them may be told from one that works.
    Not so in dumps, and in incidents that were recorded before they did."""
