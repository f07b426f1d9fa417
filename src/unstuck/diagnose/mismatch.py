"""Members of one group that run different collectives under the same number."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from unstuck.diagnose.finding import Finding, culprit
from unstuck.diagnose.graph import WaitGraph
from unstuck.diagnose.heads import Group, GroupKey, find_operation
from unstuck.diagnose.waits import ranks_behind
from unstuck.diagnose.words import ranks_text
from unstuck.model.rank import Operation
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence, StuckOperation

_SIZES_AGREE = ("allreduce", "broadcast", "reducescatter", "allgather", "reduce")


@dataclass(frozen=True, slots=True)
class Signature:
    """What must be equal on all members: the operation and, for most, element counts and types."""

    op: str
    elements: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.elements:
            return self.op
        counts = " + ".join(str(count) for count in self.elements)
        return f"{self.op} of {counts} {'/'.join(dict.fromkeys(self.dtypes))} elements"


def find_mismatches(graph: WaitGraph, least: float) -> tuple[Finding, ...]:
    """Find the groups whose members disagree where somebody waits for at least `least` seconds."""
    longest = max((graph.job.states[rank].stalled_for for rank in graph.heads), default=0.0)
    if longest < least:
        return ()
    lowest: dict[GroupKey, int] = {}
    for node in range(-1, -len(graph.operations) - 1, -1):
        head = graph.operation(node)
        if head.p2p or not graph.waiters(node):
            continue
        lowest[head.group] = min(head.number, lowest.get(head.group, head.number))
    found = (_compare(graph, graph.groups[key], number) for key, number in lowest.items())
    sure = [finding for finding in found if finding and finding.seconds >= least]
    return tuple(sorted(sure, key=lambda f: (-len(f.victims), [c.rank for c in f.culprits])))


def signature(operation: Operation) -> Signature:
    """Reduce an operation to what all members must agree on; shapes of equal size do agree."""
    return _signature(operation.op, operation.sizes, operation.dtypes)


@lru_cache(4096)
def _signature(op: str, sizes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...]) -> Signature:
    op = op.rsplit(":", 1)[-1]
    if not op.replace("_", "").lower().startswith(_SIZES_AGREE):
        return Signature(op)
    return Signature(op, tuple(prod(size) for size in sizes), dtypes)


def _compare(graph: WaitGraph, group: Group, number: int) -> Finding | None:
    earlier = _first_divergence(group, number)
    sides: dict[Signature, list[int]] = defaultdict(list)
    for rank, progress in zip(group.ranks, group.progress, strict=True):
        operation = find_operation(progress, number)
        if operation is not None:
            sides[signature(operation)].append(rank)
    if len(sides) < 2:
        return None
    return _accuse(graph, group, number, dict(sides), earlier)


def _first_divergence(group: Group, number: int) -> str:
    """Look for an earlier number at which the names already differed; sizes may be legitimate."""
    names: dict[int, Counter[str]] = defaultdict(Counter)
    for progress in group.progress:
        for operation in progress.recent:
            if operation.number < number:
                names[operation.number][signature(operation).op] += 1
    for earlier in sorted(names):
        if len(names[earlier]) > 1:
            told = " and ".join(sorted(names[earlier]))
            return f"the calls differ since #{earlier} already ({told})"
    return ""


def _accuse(
    graph: WaitGraph,
    group: Group,
    number: int,
    sides: dict[Signature, list[int]],
    earlier: str,
) -> Finding:
    ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), side[1]))
    (major, majority), second = ordered[0], ordered[1]
    tie = len(majority) == len(second[1])
    blamed = ordered if tie else ordered[1:]
    states = graph.job.states
    node = _node(graph, group, number)
    waiting = tuple(graph.waiters(node))
    seconds = max(states[rank].stalled_for for rank in waiting)
    named = f"#{number} of group {group.key[0]}"
    accused = {rank: str(side) for side, ranks in blamed for rank in ranks}
    return Finding(
        cause=Cause.COLLECTIVE_MISMATCH,
        confidence=Confidence.POSSIBLE if tie else Confidence.CERTAIN,
        because=_because(tie, named, len(majority), str(major)),
        culprits=tuple(
            culprit(states[rank], f"runs {accused[rank]} as {named}", states[rank].stalled_for)
            for rank in sorted(accused)
        ),
        victims=tuple(sorted(ranks_behind(graph, node) - accused.keys())),
        seconds=seconds,
        evidence=_evidence(named, ordered, accused, earlier),
        alternatives=(
            Alternative(
                Cause.UNEVEN_WORK,
                "compare the number of batches per rank: a rank that ran out of data is already "
                "in its next phase",
            ),
        ),
        stuck=_stuck(group, number, majority[0], waiting),
        chain=tuple(f"{ranks_text(ranks)} in {side} {named}" for side, ranks in ordered),
    )


def _node(graph: WaitGraph, group: Group, number: int) -> int:
    return next(
        node
        for node in range(-1, -len(graph.operations) - 1, -1)
        if (graph.operation(node).group, graph.operation(node).number) == (group.key, number)
    )


def _because(tie: bool, named: str, count: int, major: str) -> str:
    if tie:
        return (
            f"the members disagree on {named} and the sides are equally large, so either side "
            "may be the wrong one"
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
            role="root" if ranks[0] in accused else "victim",
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
