"""Sends and receives without a counterpart: a wrong peer, a missing receive, a different tag."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from unstuck.diagnose.finding import Finding, culprit, stack_evidence
from unstuck.diagnose.text import ranks_text
from unstuck.diagnose.thresholds import (
    HABIT,
)
from unstuck.diagnose.waits.graph import WaitGraph, is_met
from unstuck.diagnose.wording import phrase
from unstuck.model.doing import Unanswered, Unposted
from unstuck.model.rank import PointToPoint
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence, Role

_MOST_ITEMS = 5


class _Unmet(NamedTuple):
    rank: int
    one: PointToPoint


def explain_unmet(graph: WaitGraph, members: tuple[int, ...]) -> Finding | None:
    """Explain a circle of waiting by messages without a counterpart.

    None where a plain order explains it: all send first, or all receive first.
    """
    unmet = _unmet(graph, members)
    if not unmet:
        return None
    in_collective = {rank for rank in members if not graph.heads[rank].p2p}
    crossing = [
        item
        for item in unmet
        if in_collective and (item.one.peer < 0 or item.one.peer in in_collective)
    ]
    found = _without_partner(graph, crossing) if crossing else _among_messages(graph, unmet)
    if found is None:
        return None
    blamed = {one.rank for one in found.culprits}
    return replace(found, victims=tuple(rank for rank in members if rank not in blamed))


def _among_messages(graph: WaitGraph, unmet: list[_Unmet]) -> Finding | None:
    """Find the odd one where all are in sends and receives."""
    if pair := _one_pair(unmet):
        return _write(graph, pair, "both sides wait for each other with different tags or counts")
    if new := _novel(unmet):
        return _write(graph, new, "its message is new, while the others' are the usual ones")
    if len({item.one.kind for item in unmet}) == 1:
        return None
    odd = _most_involved(_unmet(graph, graph.heads))
    if all(item.rank != odd for item in unmet):
        return None
    return _write(graph, [odd], "it is part of more unmatched messages than any other rank")


def _unmet(graph: WaitGraph, ranks: Iterable[int]) -> list[_Unmet]:
    return [
        _Unmet(rank, one)
        for rank in ranks
        if (head := graph.heads.get(rank))
        for one in head.p2p
        if one.peer < 0 or not is_met(graph.job, rank, one)
    ]


def _without_partner(graph: WaitGraph, crossing: list[_Unmet]) -> Finding:
    """One side is in a message, the other in a collective: habit says which of them is odd."""
    broken = [item for item in crossing if item.one.peer >= 0 and item.one.ordinal >= HABIT]
    if broken:
        count = max(item.one.ordinal - 1 for item in broken)
        because = f"the same message was exchanged {count} times before, but not this time"
        return _write(graph, [item.one.peer for item in broken], because)
    because = "the others are in a collective and never posted the counterpart"
    return _write(graph, [item.rank for item in crossing], because)


def _one_pair(unmet: list[_Unmet]) -> list[int]:
    """Find two ranks of which one sends to the other, and that one receives from the first."""
    ways = {(item.rank, item.one.peer, item.one.kind) for item in unmet}
    for rank, peer, kind in sorted(ways):
        if kind == "send" and (peer, rank, "recv") in ways:
            return sorted((rank, peer))
    return []


def _novel(unmet: list[_Unmet]) -> list[int]:
    """Find whose message is the first on its way where the others' are a habit."""
    habits = [item for item in unmet if item.one.ordinal >= HABIT]
    return [item.rank for item in unmet if item.one.ordinal < HABIT] if habits else []


def _most_involved(unmet: list[_Unmet]) -> int:
    counts: dict[int, int] = {}
    for item in unmet:
        for rank in {item.rank, item.one.peer} - {-1}:
            counts[rank] = counts.get(rank, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    clear = len(ordered) > 1 and ordered[0][1] > ordered[1][1]
    return ordered[0][0] if clear else -1


def _write(graph: WaitGraph, blamed: list[int], because: str) -> Finding:
    ranks = sorted(set(blamed))
    states = [graph.job.states[rank] for rank in ranks]
    waits = {rank: _doing(graph, rank) for rank in ranks}
    return Finding(
        cause=Cause.COLLECTIVE_MISMATCH,
        confidence=Confidence.LIKELY if len(ranks) == 1 else Confidence.POSSIBLE,
        because=because,
        culprits=tuple(culprit(s, waits[s.rank], s.stalled_for) for s in states),
        evidence=tuple(
            item
            for state in states[:_MOST_ITEMS]
            for item in (
                Evidence(
                    f"rank {state.rank}: sends and receives", phrase(waits[state.rank]), Role.ROOT
                ),
                *stack_evidence(state),
            )
        ),
        alternatives=(
            Alternative(
                Cause.ORDER_INVERSION,
                f"compare the sends and receives of {ranks_text(ranks)} with those of its peers: "
                "if all are there but in a different order, it is an inversion",
            ),
        ),
    )


def _doing(graph: WaitGraph, rank: int) -> Unanswered | Unposted:
    head = graph.heads.get(rank)
    if head is None:
        return Unposted()
    if not head.p2p:
        return Unposted(head.number, head.group[0])
    one = head.p2p[0]
    return Unanswered(one.kind, one.ordinal, one.peer, one.tag)
