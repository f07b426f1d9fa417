"""Which nodes are part of the job, which are silent, and the whole job at one moment."""

from collections.abc import Callable, Iterable
from functools import cached_property

from msgspec import structs

from unstuck.collect.learned_silence import Arrivals
from unstuck.model.frame import Frame, NodeReport
from unstuck.model.liveness import FRAME_LIMITS, GAP
from unstuck.model.rank import RankState
from unstuck.model.snapshot import NodeState, Snapshot

_BACK_WITHIN = 10.0
"""`unstuck run` restarts an agent that died: it has this long to be back."""
_RETURN_WITHIN = 3.0
"""An agent that was cut off gave up its old connection: it is gone only if no new one follows."""
_PEERS_TELL_WITHIN = 1.5
"""Peers of a node whose connection was closed have this long to say that they still hear it."""
_SURELY_LATER = 0.3
"""What a peer heard this long after a connection was closed was not sent before."""
_NEWS_FOR = 10.0
"""How long after its return the report of a node that was cut off stays in the snapshot."""
_CUT_OFF = ("cut_off_for", "unheard", "heard")
_NEVER_CUT_OFF = NodeReport()

ReadRanks = Callable[[], tuple[RankState, ...]]


class _Node:
    def __init__(self, frame: Frame, now: float, read: ReadRanks | None = None) -> None:
        self.frame = frame
        self._read = read
        self.heard = now
        self.closed: float | None = None
        """When its connection was closed, if nothing shows that it is still alive."""
        self.lost: float | None = None
        """From when on that means that its agent is gone."""
        self.kernel_answers = False
        self.steady_since = now
        self.back_at: float | None = None
        self.returned: tuple[Frame, float] | None = (frame, now) if frame.cut_off_for else None
        self.arrivals = Arrivals(*FRAME_LIMITS)

    @cached_property
    def ranks(self) -> tuple[RankState, ...]:
        """Its ranks, read when they are first needed: most frames are replaced before."""
        return self.frame.ranks if self._read is None else self._read()

    def is_lost(self, now: float) -> bool:
        """Tell whether its agent is gone."""
        return self.lost is not None and now >= self.lost

    def cut_off_report(self, now: float) -> Frame | None:
        """Return the frame that reported its time without the hub, while that is news."""
        if self.returned is None or now - self.returned[1] > _NEWS_FOR:
            return None
        return self.returned[0]


class Membership:
    """Keeps the last frame of every node; frames are whole, so nothing else is kept.

    Times passed in are of a monotonic clock.
    """

    def __init__(self, host: str = "") -> None:
        self._host = host
        self._nodes: dict[str, _Node] = {}

    def hear(self, frame: Frame, now: float, read: ReadRanks | None = None) -> None:
        """Take in a frame; `read` returns its ranks, where they are not in it yet."""
        node, old = _Node(frame, now, read), self._nodes.get(frame.node)
        if old is not None:
            node.returned = node.returned or old.returned
            node.arrivals = old.arrivals
            node.arrivals.note(now - old.heard)
            if old.lost is None and now - old.heard <= GAP:
                node.steady_since, node.back_at = old.steady_since, old.back_at
            else:
                node.back_at = now
        self._nodes[frame.node] = node
        self._find_alive(frame, now)

    def _find_alive(self, frame: Frame, now: float) -> None:
        """Take nobody for lost who is heard after its connection was closed.

        An agent that hears nothing gives up its connection as cut off, which closes it here:
        what it sends still arrives.
        """
        for link in frame.links:
            node = self._nodes.get(link.node)
            if node is None or node.closed is None or link.heard_for is None:
                continue
            if now - link.heard_for > node.closed + _SURELY_LATER:
                node.closed = node.lost = None

    def lose(self, node: str, now: float) -> None:
        """Note that the agent's connection was closed by its own side."""
        if (found := self._nodes.get(node)) is None:
            return
        found.closed = found.lost = now
        # What was in flight while a host was cut off arrives before the end of its connection.
        just_back = found.back_at is not None and now - found.back_at < _RETURN_WITHIN
        if just_back or now - found.heard > GAP:
            found.lost += _RETURN_WITHIN
        elif any(link.heard_for is not None for link in found.frame.links):
            found.lost += _PEERS_TELL_WITHIN

    def may_be_alive(self, node: str, now: float) -> bool:
        """Tell whether a node whose connection was closed may still be heard by its peers."""
        found = self._nodes.get(node)
        return found is not None and found.closed is not None and not found.is_lost(now)

    def is_lost(self, node: str, now: float) -> bool:
        """Tell whether the agent of a node is gone."""
        return node in self._nodes and self._nodes[node].is_lost(now)

    def silent(self, now: float, seconds: float) -> dict[str, float]:
        """Map the nodes without a frame for this many seconds to how long it has been."""
        return {
            name: now - node.heard
            for name, node in self._nodes.items()
            if now - node.heard > seconds and not node.frame.ended
        }

    def note_kernel(self, node: str, *, answers: bool) -> None:
        """Note whether the kernel of a silent node acknowledges what is sent to it."""
        if node in self._nodes:
            self._nodes[node].kernel_answers = answers

    def all_ended(self, now: float) -> bool:
        """True when every node that was ever heard of has ended, or its agent died for good."""
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
            for rank in node.ranks
        )

    def snapshot(self, now: float, wall: float) -> Snapshot:
        """Merge the newest attempt of all nodes into one snapshot."""
        newest = _newest(self._nodes.values(), now)
        nodes = [
            node for _, node in sorted(self._nodes.items()) if not _has_left(node, newest, now)
        ]
        ranks = _of_attempt([rank for node in nodes for rank in _ranks(node, now)], newest)
        current = sorted(ranks, key=lambda rank: rank.rank)
        return Snapshot(
            taken_at=wall,
            nodes=tuple(_node_state(node, now) for node in nodes),
            ranks=tuple(current),
            attempt=max((rank.restarts for rank in current), default=0),
            world_size=max((rank.world_size for rank in current), default=0),
            hub=self._host,
            shows_life=True,
        )


def _has_left(node: _Node, newest: str, now: float) -> bool:
    """Tell whether a node was excluded and the job continues without it, in a new attempt.

    A rank that it was about to start again knows of no attempt yet.
    """
    frame = node.frame
    if not (newest and frame.stopping and (frame.ended or node.is_lost(now))):
        return False
    return all(rank.attempt != newest for rank in node.ranks)


def _node_state(node: _Node, now: float) -> NodeState:
    frame = node.frame
    report = {name: getattr(frame, name) for name in NodeReport.__struct_fields__}
    cut_off = node.cut_off_report(now) or _NEVER_CUT_OFF
    report |= {name: getattr(cut_off, name) for name in _CUT_OFF}
    report["launcher_gone_for"] = _launcher_gone_for(node, now)
    return NodeState(
        node=frame.node,
        host=frame.host,
        silent_for=round(now - node.heard, 3),
        disconnected=node.is_lost(now),
        kernel_answers=node.kernel_answers,
        steady_for=round(node.heard - node.steady_since, 3),
        suspect_after=round(node.arrivals.limit, 3),
        **report,
    )


def _launcher_gone_for(node: _Node, now: float) -> float:
    ended = node.frame.launcher_exit is not None
    return round(node.frame.launcher_gone_for + now - node.heard, 3) if ended else 0.0


def _ranks(node: _Node, now: float) -> list[RankState]:
    """Return the node's ranks; what has ended grows older also when no frame arrives."""
    elapsed = now - node.heard
    return [_aged(rank, elapsed, node.is_lost(now)) for rank in node.ranks]


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


def _newest(nodes: Iterable[_Node], now: float) -> str:
    """The attempt that started last; empty where no rank knows of one.

    The ranks of a lost node age as well, or they would eventually seem the youngest.
    """
    known = (
        (now - node.heard + rank.age, rank.attempt)
        for node in nodes
        for rank in node.ranks
        if rank.attempt
    )
    return min(known, default=(0.0, ""))[1]


def _of_attempt(ranks: list[RankState], newest: str) -> list[RankState]:
    """The ranks of one attempt.

    A rank whose probe never started cannot say which attempt it belongs to: it is shown
    unless another process of that rank is.
    """
    current = [rank for rank in ranks if rank.attempt and rank.attempt == newest]
    seen = {rank.rank for rank in current}
    return current + [rank for rank in ranks if not rank.attempt and rank.rank not in seen]
