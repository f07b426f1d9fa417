"""Who is part of the job, who is silent, and the whole picture at one moment."""

from msgspec import structs

from unstuck.model.frame import Frame
from unstuck.model.rank import RankState
from unstuck.model.snapshot import NodeState, Snapshot


class _Node:
    def __init__(self, frame: Frame, now: float) -> None:
        self.frame = frame
        self.heard = now
        self.disconnected = False


class Membership:
    """Keeps the last frame of every node; frames are whole, so nothing else is kept.

    Times passed in are of a monotonic clock.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}

    def hear(self, frame: Frame, now: float) -> None:
        """Take in a frame."""
        self._nodes[frame.node] = _Node(frame, now)

    def lose(self, node: str) -> None:
        """Note that the agent's connection was closed by its own side."""
        if node in self._nodes:
            self._nodes[node].disconnected = True

    @property
    def all_ended(self) -> bool:
        """True when every node that was ever heard of has said its last word."""
        return bool(self._nodes) and all(
            node.frame.ended or node.disconnected for node in self._nodes.values()
        )

    def snapshot(self, now: float, wall: float) -> Snapshot:
        """Merge the newest attempt of all nodes into one picture."""
        ranks = [rank for node in self._nodes.values() for rank in self._ranks(node)]
        newest = _newest_attempt(ranks)
        current = sorted((r for r in ranks if r.attempt == newest), key=lambda r: r.rank)
        return Snapshot(
            taken_at=wall,
            nodes=tuple(
                NodeState(
                    node=name,
                    host=node.frame.host,
                    silent_for=round(now - node.heard, 3),
                    disconnected=node.disconnected,
                    stopping=node.frame.stopping,
                    ended=node.frame.ended,
                )
                for name, node in sorted(self._nodes.items())
            ),
            ranks=tuple(current),
            attempt=max((rank.restarts for rank in current), default=0),
            world_size=max((rank.world_size for rank in current), default=0),
        )

    def _ranks(self, node: _Node) -> tuple[RankState, ...]:
        if not node.disconnected:
            return node.frame.ranks
        why = "its agent died"
        return tuple(structs.replace(rank, unobserved=why) for rank in node.frame.ranks)


def _newest_attempt(ranks: list[RankState]) -> str:
    return min(ranks, key=lambda rank: rank.age).attempt if ranks else ""
