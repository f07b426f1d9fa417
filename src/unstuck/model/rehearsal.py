"""What the ranks of a rehearsed launch found out about each other."""

from msgspec import Struct


class PairResult(Struct, frozen=True, omit_defaults=True):
    """One machine's way to another."""

    source: str
    target: str
    address: str
    round_trip: float = 0.0
    """Seconds, the shortest of several."""
    bandwidth: float = 0.0
    """Bytes a second."""
    clock_offset: float = 0.0
    """Seconds by which the other one's clock is ahead."""
    error: str = ""


class ReduceResult(Struct, frozen=True, omit_defaults=True):
    """One all-reduce among so many neighbouring ranks."""

    size: int
    seconds: float = 0.0
    error: str = ""


class RankReport(Struct, omit_defaults=True):
    """What one rank has found out so far; the program writes it after every stage."""

    rank: int
    world_size: int
    host: str
    node: str
    """Tells machines apart: two of them may have the same name."""
    stage: str = "start"
    """`start`, `store`, `met`, `pairs`, `reduce` or `done`: how far it has come."""
    versions: dict[str, str] = {}
    address: str = ""
    problems: list[str] = []
    missing: list[int] = []
    """Ranks that did not arrive at the store."""
    pairs: list[PairResult] = []
    reduces: list[ReduceResult] = []
    compute: float = 0.0
    """Small matrix products a second, on one core."""
