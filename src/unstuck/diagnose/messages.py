"""Sends and receives that have no counterpart: a wrong peer, a missing receive, another tag."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from unstuck.diagnose.finding import Finding, culprit, stack_evidence
from unstuck.diagnose.graph import WaitGraph, is_met
from unstuck.diagnose.words import ranks_text
from unstuck.model.rank import PointToPoint
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence

HABIT = 3
"""From this many messages on the same way it is a habit, and the one that breaks it is odd."""
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
        return _write(graph, pair, "both sides wait for each other with another tag or count")
    if new := _novel(unmet):
        return _write(graph, new, "its message is a new one, while the others do as before")
    if len({item.one.kind for item in unmet}) == 1:
        return None
    odd = _most_involved(_unmet(graph, graph.heads))
    if all(item.rank != odd for item in unmet):
        return None
    return _write(graph, [odd], "more unanswered messages begin or end at it than at any other")


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
        because = f"the same message was exchanged {count} times before, and this time it was not"
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
    waits = {rank: _phrase(graph, rank) for rank in ranks}
    return Finding(
        cause=Cause.COLLECTIVE_MISMATCH,
        confidence=Confidence.LIKELY if len(ranks) == 1 else Confidence.POSSIBLE,
        because=because,
        culprits=tuple(culprit(s, waits[s.rank], s.stalled_for) for s in states),
        evidence=tuple(
            item
            for state in states[:_MOST_ITEMS]
            for item in (
                Evidence(f"rank {state.rank}: sends and receives", waits[state.rank], "root"),
                *stack_evidence(state),
            )
        ),
        alternatives=(
            Alternative(
                Cause.ORDER_INVERSION,
                f"read the sends and receives of {ranks_text(ranks)} beside those of its peers: "
                "all there, but in another order, is an inversion",
            ),
        ),
    )


def _phrase(graph: WaitGraph, rank: int) -> str:
    head = graph.heads.get(rank)
    if head is None or not head.p2p:
        number = f" #{head.number} of group {head.group[0]}" if head else ""
        return f"is in collective{number} and has not posted the counterpart of a message"
    one = head.p2p[0]
    way = "to" if one.kind == "send" else "from"
    peer = f"rank {one.peer}" if one.peer >= 0 else "any rank"
    return f"waits in {one.kind} #{one.ordinal} {way} {peer} (tag {one.tag}), which nobody answers"
