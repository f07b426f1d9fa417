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

    @property
    def ended_badly(self) -> bool:
        """True when a rank is gone that did not leave with exit code 0."""
        return any(
            rank.process.gone_for is not None and rank.process.exit_code != 0
            for node in self._nodes.values()
            for rank in node.frame.ranks
        )

    def snapshot(self, now: float, wall: float) -> Snapshot:
        """Merge the newest attempt of all nodes into one picture."""
        ranks = [rank for node in self._nodes.values() for rank in _ranks(node, now)]
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


def _ranks(node: _Node, now: float) -> list[RankState]:
    """The node's ranks; what has ended for good grows older also when no frame comes."""
    elapsed = now - node.heard
    return [_aged(rank, elapsed, node.disconnected) for rank in node.frame.ranks]


def _aged(rank: RankState, elapsed: float, agent_died: bool) -> RankState:
    process, failure = rank.process, rank.failure
    if process.gone_for is not None:
        process = structs.replace(process, gone_for=process.gone_for + elapsed)
    if failure is not None:
        failure = structs.replace(failure, age=failure.age + elapsed)
    unobserved = rank.unobserved or ("its agent died" if agent_died else "")
    if (process, failure, unobserved) == (rank.process, rank.failure, rank.unobserved):
        return rank
    return structs.replace(rank, process=process, failure=failure, unobserved=unobserved)


def _newest_attempt(ranks: list[RankState]) -> str:
    return min(ranks, key=lambda rank: rank.age).attempt if ranks else ""
