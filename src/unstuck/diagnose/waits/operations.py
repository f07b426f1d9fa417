"""The operation that each rank waits in, and how far the members of each group are."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter

from msgspec import Struct

from unstuck.diagnose.job.main_thread import (
    POINT_TO_POINT,
    call_in_progress,
    is_blocked,
    waits_in_other_thread,
)
from unstuck.diagnose.job.standing import Job
from unstuck.model.rank import GroupProgress, Operation, PointToPoint, RankState

GroupKey = tuple[str, int, int, int]
"""Name, size, first and last member: names are reused after a split or restart."""


@dataclass(slots=True)
class Group:
    """One process group and the progress its members report."""

    key: GroupKey
    description: str = ""
    members: tuple[int, ...] = ()
    ranks: list[int] = field(default_factory=list[int])
    progress: list[GroupProgress] = field(default_factory=list[GroupProgress])


_AGE = attrgetter("age")


class Head(Struct, frozen=True, gc=False):
    """What a rank waits in: a collective of a group, sends and receives, or a meeting."""

    group: GroupKey
    number: int = 0
    p2p: tuple[PointToPoint, ...] = ()
    call: str = ""
    """The function in which ranks meet without a collective; see `meetings`."""


def group_key(progress: GroupProgress) -> GroupKey:
    """Identify a process group without comparing its whole member list."""
    ranks = progress.ranks
    if not ranks:
        return (progress.name, 0, -1, -1)
    return (progress.name, len(ranks), ranks[0], ranks[-1])


def gather_groups(job: Job, keys: Iterable[GroupKey]) -> dict[GroupKey, Group]:
    """Collect the progress of all reporting members, only for the groups asked for."""
    groups = {key: Group(key) for key in keys}
    names = {key[0] for key in groups}
    for rank, state in job.states.items():
        for progress in state.groups:
            if progress.name in names and (group := groups.get(group_key(progress))):
                group.ranks.append(rank)
                group.progress.append(progress)
    reported = {key: group for key, group in groups.items() if group.ranks}
    for group in reported.values():
        group.description = group.progress[0].description
        group.members = group.progress[0].ranks or tuple(group.ranks)
    return reported


def find_heads(job: Job) -> dict[int, Head]:
    """Find the head of every living rank whose main thread waits in an operation.

    Where no main thread does, it may be another thread that the script gave this to.

    Thousands of ranks wait in the same collective: they share one head, which saves the
    garbage collector a look at all of them.
    """
    return _heads_of(job, is_blocked) or _heads_of(job, waits_in_other_thread)


def _heads_of(job: Job, waits: Callable[[RankState], bool]) -> dict[int, Head]:
    heads: dict[int, Head] = {}
    known: dict[Head, Head] = {}
    for state in job.live:
        if state.in_flight and waits(state) and (head := _head(state)):
            heads[state.rank] = known.setdefault(head, head)
    return heads


def last_words(state: RankState) -> Head | None:
    """Find what a rank waited in when it failed: what was incomplete, else its last operation."""
    if head := _head(state):
        return head
    begun = [progress for progress in state.groups if progress.enqueued > 0]
    if not begun:
        return None
    # A failed operation may count as retired. Which group failed is then not known; the largest
    # one is the best guess, and a wrong guess finds nobody behind.
    progress = max(begun, key=lambda p: (len(p.ranks), p.name))
    return Head(group_key(progress), progress.enqueued)


def find_operation(progress: GroupProgress, number: int) -> Operation | None:
    """Look up one operation of a group in what the recorder still holds."""
    for operation in progress.pending:
        if operation.number == number:
            return operation
    for operation in progress.recent:
        if operation.number == number:
            return operation
    return None


def all_have_begun(job: Job, key: GroupKey, number: int) -> bool:
    """Tell whether a member has completed an operation that no member can before all began it."""
    found = (
        find_operation(progress, number)
        for state in job.states.values()
        for progress in state.groups
        if group_key(progress) == key
    )
    return any(one is not None and one.done and needs_all(one.op) for one in found)


def needs_all(op: str) -> bool:
    """Tell whether no member can complete an operation before all have begun it.

    Example:
        >>> needs_all("_all_gather_base"), needs_all("broadcast")
        (True, False)
    """
    name = op.rsplit(":", 1)[-1].replace("_", "").lower()
    return name.startswith(("allreduce", "allgather", "alltoall", "reducescatter", "barrier"))


def _head(state: RankState) -> Head | None:
    call = call_in_progress(state)
    if call in POINT_TO_POINT and state.p2p:
        return _p2p_head(state, call)
    collective = _newest(state, call) if call and call not in POINT_TO_POINT else None
    if collective:
        return collective
    age, collective = _oldest(state)
    if state.p2p:
        first = max(map(_AGE, state.p2p))
        if first > age and runs_in_order(state):
            chosen = tuple(one for one in state.p2p if one.age == first)
            return Head(_p2p_group(state, chosen[0].group), 0, chosen)
    if collective:
        return collective
    return _p2p_head(state, call) if state.p2p else None


def runs_in_order(state: RankState) -> bool:
    """Tell whether a device carries the operations out in the order in which they were issued."""
    return any(map(on_device, state.groups))


def on_device(progress: GroupProgress) -> bool:
    """Tell whether a device, and not the host, carries out the operations of a group."""
    return "nccl" in progress.backend


def _p2p_head(state: RankState, call: str) -> Head:
    pending = state.p2p
    kind = {"send": "send", "isend": "send", "recv": "recv", "irecv": "recv"}.get(call, "")
    if kind and (same := [one for one in pending if one.kind == kind]):
        chosen = (min(same, key=lambda one: one.age),)
    elif call in ("batch_isend_irecv", "wait"):
        chosen = pending
    else:
        # A send that nobody waits on stays incomplete for ever, so receives come first.
        kinds = [one for one in pending if one.kind == "recv"] or pending
        chosen = (max(kinds, key=lambda one: one.age),)
    return Head(_p2p_group(state, chosen[0].group), 0, tuple(chosen))


def _p2p_group(state: RankState, name: str) -> GroupKey:
    for progress in state.groups:
        if progress.name == name:
            return group_key(progress)
    return (name, 0, -1, -1)


def _oldest(state: RankState) -> tuple[float, Head | None]:
    """Take the oldest incomplete collective, with its age: run-ahead work waits for it."""
    best: GroupProgress | None = None
    best_age, best_number = -1.0, 0
    for progress in state.groups:
        completed = progress.completed
        if progress.enqueued <= completed:
            continue
        # What the recorder called pending may have completed since it was read.
        pending = progress.pending
        if pending and pending[0].number <= completed:
            pending = [one for one in pending if one.number > completed]
        age = pending[0].age if pending else 0.0
        if age > best_age:
            best, best_age = progress, age
            best_number = pending[0].number if pending else completed + 1
    return best_age, Head(group_key(best), best_number) if best else None


def _newest(state: RankState, call: str) -> Head | None:
    """Take the newest incomplete collective of this name: a blocking call is the last issued."""
    best: GroupProgress | None = None
    age, number = 0.0, 0
    for progress in state.groups:
        completed = progress.completed
        if progress.enqueued <= completed:
            continue
        for one in progress.pending:
            if one.number <= completed or not _same_call(call, one.op):
                continue
            if best is None or one.age < age or (one.age == age and one.number > number):
                best, age, number = progress, one.age, one.number
    return Head(group_key(best), number) if best else None


@cache
def _same_call(call: str, op: str) -> bool:
    plain = op.replace("_", "").lower()
    asked = call.replace("_", "").lower()
    for ending in ("intotensor", "tensor", "single", "object", "objectlist", "coalesced"):
        asked = asked.removesuffix(ending)
    return asked in plain
