"""Devices that stopped: ranks that have not completed what other members of the group have.

On a device the host runs ahead: that a rank has issued an operation does not mean that its GPU has
carried it out. An operation that needs every member and that one of them has completed was begun
by all; a rank for which it is still incomplete does not wait for anybody. Its victims, however far
downstream, cannot be behind in this sense: nobody completes such an operation without them.

On gloo the host itself carries out the operations, so that there is nothing to compare.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec import Struct

from unstuck.diagnose.finding import Finding, culprit, stack_evidence
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.text import group_text, ranks_text
from unstuck.diagnose.thresholds import LAGS_BEYOND_CHANCE
from unstuck.diagnose.waits.operations import (
    Group,
    GroupKey,
    find_operation,
    group_key,
    needs_all,
    on_device,
)
from unstuck.model.doing import DeviceStopped
from unstuck.model.rank import GroupProgress
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence, Role

_MOST_ITEMS = 5
_MOST_SEARCHED = 64
"""Operations of one rank and group; the recorder holds no more of them than this."""
_ALTERNATIVES = (
    Alternative(
        Cause.TRANSPORT_STALL,
        "run nccl-tests and `dcgmi diag -r 2` on its host: if the GPU passes and the tests hang, "
        "it is the network",
    ),
    Alternative(
        Cause.SOFTWARE_BUG,
        "look with `py-spy dump --native` or cuda-gdb: a GPU that is at 100 % in one and the same "
        "kernel, without an Xid, runs a kernel that does not end",
    ),
    Alternative(
        Cause.HOST_DEADLOCK,
        "take its stack: a watchdog thread that waits for the GIL or a lock counts nothing either",
    ),
)


class Lag(Struct, frozen=True):
    """How far a rank is behind in one group."""

    group: str
    """Its description, or its name."""
    completed: int
    others: int
    """How many the members have completed that are furthest."""
    size: int
    """How many members of the group were compared."""
    behind: int
    """How many of them are behind."""


def find_stopped(job: Job) -> dict[int, tuple[Lag, ...]]:
    """Find the ranks that are behind in most of the groups in which members disagree.

    Nobody where there is no difference, or where two ranks are behind each other.

    Example:
        find_stopped(job)  # {12: (Lag("TENSOR_MODEL_PARALLEL_GROUP", 42805, 42817, 2, 1), ...)}
    """
    lags: dict[int, list[Lag]] = defaultdict(list)
    asked: Counter[int] = Counter()
    for group in _comparable(job):
        top = max(progress.completed for progress in group.progress)
        behind = _behind(group, top)
        if not 0 < len(behind) <= len(group.ranks) / 2:
            continue
        asked.update(group.ranks)
        for rank, progress in behind.items():
            name = group_text(group.key[0], group.description)
            size = len(group.ranks)
            lags[rank].append(Lag(name, progress.completed, top, size, len(behind)))
    most = {rank: tuple(own) for rank, own in lags.items() if 2 * len(own) > asked[rank]}
    return {rank: own for rank, own in sorted(most.items()) if not _may_be_chance(own)}


def _comparable(job: Job) -> list[Group]:
    """List the groups on a device of which two living members report different completions.

    torch numbers sends and receives together with collectives, and stages of a pipeline exchange
    different numbers of them: a group that has messages under way cannot be compared.
    """
    groups: dict[GroupKey, Group] = {}
    mixed: set[str] = set()
    for state in job.live:
        mixed.update(one.group for one in state.p2p)
        for progress in state.groups:
            if progress.enqueued > 0 and on_device(progress):
                key = group_key(progress)
                group = groups.setdefault(key, Group(key, progress.description))
                group.description = group.description or progress.description
                group.ranks.append(state.rank)
                group.progress.append(progress)
    return [
        group
        for group in groups.values()
        if group.key[1] > 1 and group.key[0] not in mixed and _differ(group.progress)
    ]


def _differ(found: list[GroupProgress]) -> bool:
    return any(one.completed != found[0].completed for one in found)


def _behind(group: Group, top: int) -> dict[int, GroupProgress]:
    """Find the members that have issued, and not completed, what needs all and others completed.

    One that has not even issued it is not waited for by a device but by a host: `graph` sees that.
    """
    return {
        rank: progress
        for rank, progress in zip(group.ranks, group.progress, strict=True)
        if progress.completed < top <= progress.enqueued
        and _needed_all(group.progress, progress.completed + 1, top)
    }


def _needed_all(members: Iterable[GroupProgress], first: int, last: int) -> bool:
    """Tell whether one of these operations needs all members; one that nobody recorded may.

    The root of a broadcast completes it before the others do, those of a reduce before the root.
    """
    recorded = list(members)
    for number in range(first, min(last, first + _MOST_SEARCHED) + 1):
        known = (find_operation(one, number) for one in recorded)
        operation = next((one for one in known if one), None)
        if operation is None or needs_all(operation.op):
            return True
    return False


def _may_be_chance(lags: tuple[Lag, ...]) -> bool:
    """Tell whether a single operation is all there is, and not of one member against several.

    In a ring that stalls, some members may have received their last piece and others not.
    """
    alone = lags[0].behind == 1 and lags[0].size > 2
    return _operations(lags) < LAGS_BEYOND_CHANCE and not alone


def _operations(lags: tuple[Lag, ...]) -> int:
    return sum(lag.others - lag.completed for lag in lags)


def explain_device(job: Job, stopped: dict[int, tuple[Lag, ...]]) -> Finding:
    """Blame the ranks whose devices stopped, with the counts that show it."""
    states = [job.states[rank] for rank in stopped]
    firm = all(_operations(lags) >= LAGS_BEYOND_CHANCE for lags in stopped.values())
    doing = {rank: _activity(lags) for rank, lags in stopped.items()}
    return Finding(
        cause=Cause.HARDWARE_FAULT,
        confidence=Confidence.LIKELY if firm else Confidence.POSSIBLE,
        because=_because(stopped, firm=firm),
        culprits=tuple(culprit(one, doing[one.rank], one.stalled_for) for one in states),
        evidence=tuple(
            item
            for state in states[:_MOST_ITEMS]
            for item in (*_counts(state.rank, stopped[state.rank]), *stack_evidence(state))
        ),
        alternatives=_ALTERNATIVES,
    )


def _activity(lags: tuple[Lag, ...]) -> DeviceStopped:
    worst = max(lags, key=lambda lag: lag.others - lag.completed)
    return DeviceStopped(worst.group, worst.completed, worst.others)


def _because(stopped: dict[int, tuple[Lag, ...]], *, firm: bool) -> str:
    groups = max(len(lags) for lags in stopped.values())
    which = f"{groups} groups" if groups > 1 else "its group"
    text = (
        f"in {which} other members have completed what {ranks_text(stopped)} "
        f"{'has' if len(stopped) == 1 else 'have'} issued and not completed"
    )
    return text if firm else text + "; it is a single operation, which a network may cause too"


def _counts(rank: int, lags: tuple[Lag, ...]) -> list[Evidence]:
    return [
        Evidence(
            f"rank {rank}: flight recorder",
            f"has completed {lag.completed} operations of {lag.group}, other members {lag.others}",
            Role.ROOT,
        )
        for lag in lags[:_MOST_ITEMS]
    ]
