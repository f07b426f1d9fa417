"""Who is part of the job, who is silent, and the whole picture at one moment."""

from msgspec import structs

from unstuck.model.frame import Frame
from unstuck.model.rank import RankState
from unstuck.model.snapshot import NodeState, Snapshot

_BACK_WITHIN = 10.0
"""`unstuck run` starts an agent that died again: it has this long to come back."""


class _Node:
    def __init__(self, frame: Frame, now: float) -> None:
        self.frame = frame
        self.heard = now
        self.lost: float | None = None


class Membership:
    """Keeps the last frame of every node; frames are whole, so nothing else is kept.

    Times passed in are of a monotonic clock.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}

    def hear(self, frame: Frame, now: float) -> None:
        """Take in a frame."""
        self._nodes[frame.node] = _Node(frame, now)

    def lose(self, node: str, now: float) -> None:
        """Note that the agent's connection was closed by its own side."""
        if node in self._nodes:
            self._nodes[node].lost = now

    def all_ended(self, now: float) -> bool:
        """True when every node that was ever heard of has said its last word, or died for good."""
        nodes = self._nodes.values()
        patience = 0.0 if any(node.frame.ended for node in nodes) else _BACK_WITHIN
        return bool(nodes) and all(
            node.frame.ended or (node.lost is not None and now - node.lost >= patience)
            for node in nodes
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
        current = sorted(_newest_attempt(ranks), key=lambda rank: rank.rank)
        return Snapshot(
            taken_at=wall,
            nodes=tuple(
                NodeState(
                    node=name,
                    host=node.frame.host,
                    silent_for=round(now - node.heard, 3),
                    disconnected=node.lost is not None,
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
    return [_aged(rank, elapsed, node.lost is not None) for rank in node.frame.ranks]


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


def _newest_attempt(ranks: list[RankState]) -> list[RankState]:
    """The ranks of the attempt that started last.

    A rank whose probe never started cannot say which attempt it belongs to: it is shown
    unless another process of that rank is.
    """
    known = [rank for rank in ranks if rank.attempt]
    newest = min(known, key=lambda rank: rank.age).attempt if known else ""
    current = [rank for rank in known if rank.attempt == newest]
    seen = {rank.rank for rank in current}
    return current + [rank for rank in ranks if not rank.attempt and rank.rank not in seen]
