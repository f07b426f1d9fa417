"""Members of one group that run different collectives under the same number."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from msgspec import structs

from unstuck.diagnose.finding import Finding, culprit
from unstuck.diagnose.majority import vote
from unstuck.diagnose.stuck.left_loop import Left, explain_left, find_leavers, same_loops
from unstuck.diagnose.text import number_text, ranks_text
from unstuck.diagnose.waits.graph import WaitGraph
from unstuck.diagnose.waits.operations import Group, GroupKey, find_operation
from unstuck.diagnose.waits.sinks import ranks_behind
from unstuck.model.doing import Runs
from unstuck.model.rank import Operation, RankState
from unstuck.model.verdict import (
    Alternative,
    Cause,
    Confidence,
    Culprit,
    Evidence,
    Role,
    StuckOperation,
)

_BYTES = {
    "Double": 8, "Long": 8, "ComplexFloat": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2,
    "Short": 2, "Byte": 1, "Char": 1, "Bool": 1,
}  # fmt: skip
OUT_OF_DATA = (
    "compare the number of batches per rank: a rank that ran out of data is already in its next "
    "phase"
)
_Recorded = tuple[str, tuple[tuple[int, ...], ...], tuple[str, ...], int]
_SIZES_AGREE = ("allreduce", "broadcast", "reducescatter", "allgather", "reduce")


@dataclass(frozen=True, slots=True)
class Signature:
    """What must be equal on all members: the operation and, for most, element counts and types."""

    op: str
    elements: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()
    root: int = -1

    def __str__(self) -> str:
        text = self.op
        if self.elements:
            counts = " + ".join(str(count) for count in self.elements)
            text += f" of {counts} {'/'.join(dict.fromkeys(self.dtypes))} elements"
        return text + (f" with root {self.root}" if self.root >= 0 else "")


def find_mismatches(
    graph: WaitGraph, least: float, aborted: int | None = None
) -> tuple[Finding, ...]:
    """Find the groups whose members disagree where somebody waits for at least `least` seconds.

    `aborted` is a rank that gloo ended because more came than it expected.
    """
    states = graph.job.states
    if not any(states[rank].stalled_for >= least for rank in graph.heads):
        return ()
    lowest: dict[GroupKey, int] = {}
    for node in graph.nodes:
        head = graph.operation(node)
        if head.p2p or head.call or not graph.waiters(node):
            continue
        lowest[head.group] = min(head.number, lowest.get(head.group, head.number))
    found = (_compare(graph, graph.groups[key], number, aborted) for key, number in lowest.items())
    sure = [finding for finding in found if finding and finding.seconds >= least]
    return tuple(sorted(sure, key=lambda f: (-len(f.victims), [c.rank for c in f.culprits])))


def signature(operation: Operation) -> Signature:
    """Reduce an operation to what all members must agree on; shapes of equal size do agree."""
    return _signature(operation.op, operation.sizes, operation.dtypes, operation.root)


@lru_cache(4096)
def _signature(
    op: str, sizes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...], root: int
) -> Signature:
    op = op.rsplit(":", 1)[-1]
    if not op.replace("_", "").lower().startswith(_SIZES_AGREE):
        return Signature(op, root=root)
    return Signature(op, tuple(prod(size) for size in sizes), dtypes, root)


def _compare(graph: WaitGraph, group: Group, number: int, aborted: int | None) -> Finding | None:
    sides = _sides(group, number)
    if len(sides) < 2:
        return None
    known = aborted not in group.members or any(aborted in ranks for ranks in sides.values())
    receiver = None if known else _smaller(list(sides))
    return _accuse(graph, group, number, sides, _first_divergence(group, number), receiver)


def _sides(group: Group, number: int) -> dict[Signature, list[int]]:
    """Divide the members by what they run; mostly all run the same, so signatures are few."""
    found: dict[_Recorded, list[int]] = defaultdict(list)
    for rank, progress in zip(group.ranks, group.progress, strict=True):
        if one := find_operation(progress, number):
            found[one.op, one.sizes, one.dtypes, one.root].append(rank)
    rooted = all(root >= 0 for _, _, _, root in found)
    sides: dict[Signature, list[int]] = defaultdict(list)
    for (op, sizes, dtypes, root), ranks in found.items():
        # A root that is not known everywhere says nothing; other operations have none.
        sides[_signature(op, sizes, dtypes, root if rooted else -1)] += ranks
    return {side: sorted(ranks) for side, ranks in sides.items()}


def _smaller(sides: list[Signature]) -> Signature | None:
    """Of two sides, the one that is sent too much by the other."""
    sized = [(size, side) for side in sides if (size := _size(side))]
    if len(sides) != 2 or len(sized) != 2 or sized[0][0] == sized[1][0]:
        return None
    return min(sized, key=lambda one: one[0])[1]


def _size(side: Signature) -> int:
    """Count the bytes of an operation; 0 if they are not known."""
    if len(side.elements) != len(side.dtypes):
        return 0
    each = zip(side.elements, side.dtypes, strict=True)
    sizes = [count * _BYTES.get(dtype, 0) for count, dtype in each]
    return sum(sizes) if all(sizes) else 0


def _first_divergence(group: Group, number: int) -> str:
    """Look for an earlier number at which the names already differed; sizes may be legitimate."""
    names: dict[int, Counter[str]] = defaultdict(Counter)
    for progress in group.progress:
        for operation in progress.recent:
            if operation.number < number:
                names[operation.number][signature(operation).op] += 1
    for earlier in sorted(names):
        if len(names[earlier]) > 1:
            both = " and ".join(sorted(names[earlier]))
            return f"the calls have differed since #{earlier} ({both})"
    return ""


def _accuse(
    graph: WaitGraph,
    group: Group,
    number: int,
    sides: dict[Signature, list[int]],
    earlier: str,
    receiver: Signature | None = None,
) -> Finding:
    """Accuse the smaller side; `receiver` is the side on which one more must have been."""
    voted = vote(sides, receiver)
    ordered, tie = voted.sides, voted.tie
    if left := find_leavers(graph.job, [ranks for _, ranks in ordered]):
        return _uneven(graph, group, number, ordered, left)
    votes = [len(ranks) + (side == receiver) for side, ranks in ordered]
    major, majority = ordered[0]
    sure = votes[0] > votes[1] + len(group.members) - sum(votes)
    states = graph.job.states
    node = _node(graph, group, number)
    waiting = tuple(graph.waiters(node))
    seconds = max(states[rank].stalled_for for rank in waiting)
    named = f"{number_text(number)} of group {group.key[0]}".strip()
    accused = {rank: str(side) for side, ranks in voted.odd for rank in ranks}
    return Finding(
        cause=Cause.COLLECTIVE_MISMATCH,
        confidence=_confidence(tie, sure or receiver is None),
        because=_because(tie, named, votes[0], str(major)),
        culprits=tuple(
            _culprit(states[rank], Runs(accused[rank], number, group.key[0]))
            for rank in sorted(accused)
        ),
        victims=tuple(sorted(ranks_behind(graph, node) - accused.keys())),
        seconds=seconds,
        evidence=_evidence(named, ordered, accused, earlier),
        alternatives=()
        if same_loops(graph.job, [rank for _, ranks in ordered for rank in ranks])
        else (
            Alternative(
                Cause.UNEVEN_WORK,
                OUT_OF_DATA,
            ),
        ),
        stuck=_stuck(group, number, majority[0], waiting),
        chain=_chain(named, ordered),
    )


def _confidence(tie: bool, sure: bool) -> Confidence:
    if tie:
        return Confidence.POSSIBLE
    return Confidence.CERTAIN if sure else Confidence.LIKELY


def _culprit(state: RankState, runs: Runs) -> Culprit:
    at = state.failure.at if state.failure else None
    return culprit(state, runs, state.stalled_for, at)


def _chain(named: str, ordered: list[tuple[Signature, list[int]]]) -> tuple[str, ...]:
    return tuple(f"{ranks_text(ranks)} in {side} {named}" for side, ranks in ordered)


def _uneven(
    graph: WaitGraph,
    group: Group,
    number: int,
    ordered: list[tuple[Signature, list[int]]],
    left: Left,
) -> Finding:
    """Say that ranks have left the loop that the others are still in."""
    node = _node(graph, group, number)
    waiting = tuple(graph.waiters(node))
    named = f"{number_text(number)} of group {group.key[0]}".strip()
    runs = {rank: str(side) for side, ranks in ordered for rank in ranks}
    finding = explain_left(
        graph.job, left, {rank: Runs(runs[rank], number, group.key[0]) for rank in left.ranks}
    )
    blamed = {one.rank for one in finding.culprits}
    example = next(rank for rank in runs if rank not in left.ranks)
    return structs.replace(
        finding,
        victims=tuple(sorted(ranks_behind(graph, node) - blamed)),
        seconds=max(graph.job.states[rank].stalled_for for rank in waiting),
        evidence=finding.evidence
        + _evidence(named, ordered, {rank: runs[rank] for rank in blamed}, ""),
        stuck=_stuck(group, number, example, waiting),
        chain=_chain(named, ordered),
    )


def _node(graph: WaitGraph, group: Group, number: int) -> int:
    return next(
        node
        for node in graph.nodes
        if (graph.operation(node).group, graph.operation(node).number) == (group.key, number)
    )


def _because(tie: bool, named: str, count: int, major: str) -> str:
    if tie:
        return (
            f"the members disagree on {named} and both sides are the same size, so either may be "
            "the wrong one"
        )
    return f"{count} members run {major} as {named}; the others differ"


def _evidence(
    named: str,
    ordered: list[tuple[Signature, list[int]]],
    accused: dict[int, str],
    earlier: str,
) -> tuple[Evidence, ...]:
    items = [
        Evidence(
            source=f"{ranks_text(ranks)}: flight recorder",
            text=f"{named} is {side}",
            role=Role.ROOT if ranks[0] in accused else Role.VICTIM,
        )
        for side, ranks in ordered
    ]
    if earlier:
        items.append(Evidence("flight recorder", earlier))
    return tuple(items)


def _stuck(group: Group, number: int, example: int, waiting: tuple[int, ...]) -> StuckOperation:
    progress = group.progress[group.ranks.index(example)]
    operation = find_operation(progress, number) or Operation(group.key[0], number, "collective")
    return StuckOperation(
        op=operation.op,
        number=number,
        group=group.key[0],
        group_size=len(group.members),
        description=group.description,
        sizes=operation.sizes,
        dtypes=operation.dtypes,
        waiting=waiting,
    )
