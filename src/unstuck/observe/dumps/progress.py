"""How far one rank got in its groups, and which messages it still waits for."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from unstuck.model.rank import GroupProgress, Operation, PointToPoint, RankState
from unstuck.observe.dumps.files import Dump, Entry
from unstuck.observe.dumps.members import Roster, backend_of, status_names

MOST_KEPT = 16
_COALESCED = "coalesced"
_MESSAGE = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")
_Key = tuple[str, int, int, int]
"""Name, size, first and last member of a group."""
_NEEDS_ALL = ("allreduce", "allgather", "alltoall", "barrier", "reducescatter")


def is_done(entry: Entry) -> bool:
    """Tell whether an operation has completed.

    On gloo entries stay `scheduled` for ever and only `retired` tells. On NCCL a retired entry
    that has not completed is one that timed out.
    """
    if entry.state == "completed":
        return True
    return entry.retired and entry.backend != "nccl"


def progress_of(dump: Dump, roster: Roster, moment: float) -> list[GroupProgress]:
    """Read from one dump how far the rank got in each of its groups."""
    backend = backend_of(dump.content)
    by_group: dict[str, list[Entry]] = defaultdict(list)
    for entry in dump.content.entries:
        by_group[entry.group].append(entry)
    status = dict(dump.content.pg_status)
    found: list[GroupProgress] = []
    for name, entries in by_group.items():
        counters = status.pop(str(entries[0].pg_id), {})
        description = entries[0].description
        empty = GroupProgress(
            name=roster.name((backend, name)),
            ranks=roster.members((backend, name), description, dump.rank),
            enqueued=0,
            completed=0,
            description=description,
            backend=backend,
        )
        found.append(_count(empty, entries, counters, moment))
    names = status_names(dump.content)
    return found + [
        _from_status(names[key], counters, dump, roster) for key, counters in status.items()
    ]


def _count(
    group: GroupProgress, entries: list[Entry], counters: dict[str, int], moment: float
) -> GroupProgress:
    operations = _operations(group.name, entries, moment)
    enqueued = max((one.number for one in operations), default=0)
    if any(is_message(entry) for entry in entries) or group.backend != "nccl":
        return group.with_operations(operations, enqueued, MOST_KEPT)
    # A dump of only what is active leaves out what has completed.
    enqueued = max(enqueued, counters.get("last_enqueued_collective", 0))
    counted = group.with_operations(operations, enqueued, MOST_KEPT)
    # The ring may have overwritten the oldest of those that have not completed.
    completed = counters.get("last_completed_collective", 0)
    return replace(counted, completed=completed) if 0 < completed < counted.completed else counted


def _operations(group: str, entries: list[Entry], moment: float) -> list[Operation]:
    """List the collectives, oldest first; the parts of a coalesced one are one operation."""
    by_number: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        if not is_message(entry) and not _closes_messages(entry):
            by_number[entry.collective_seq_id].append(entry)
    found: list[Operation] = []
    for number in sorted(by_number):
        parts = by_number[number]
        # Only the entry that closes a coalesced batch has a state of its own.
        named = next((one for one in parts if one.op != _COALESCED), parts[0])
        found.append(
            Operation(
                group=group,
                number=number,
                op=named.op,
                sizes=named.input_sizes,
                dtypes=named.input_dtypes,
                age=round(moment - named.time_created_ns / 1e9, 3),
                done=is_done(parts[-1]),
            )
        )
    return found


def _from_status(name: str, counters: dict[str, int], dump: Dump, roster: Roster) -> GroupProgress:
    """Count by pg_status alone, where the entries were left out or overwritten."""
    enqueued = max(0, counters.get("last_enqueued_collective", 0))
    completed = max(0, counters.get("last_completed_collective", 0))
    group = (backend_of(dump.content), name)
    return GroupProgress(
        name=roster.name(group),
        ranks=roster.members(group, "", dump.rank),
        enqueued=enqueued,
        completed=min(completed, enqueued),
        backend=group[0],
    )


def is_message(entry: Entry) -> bool:
    """Tell whether an entry is a send or receive; versions before 2.2 do not say it."""
    return bool(entry.is_p2p) or entry.op in ("send", "recv")


def _closes_messages(entry: Entry) -> bool:
    return entry.op == _COALESCED and bool(entry.is_p2p)


def count_messages(dump: Dump, roster: Roster, moment: float) -> list[PointToPoint]:
    """List the sends and receives of one dump that have not completed, oldest first.

    Messages between two ranks are numbered from the first that both can still have recorded:
    once the ring was overwritten, from the first incomplete one.
    """
    content = dump.content
    closed = {
        (entry.group, entry.p2p_seq_id): is_done(entry)
        for entry in content.entries
        if entry.op == _COALESCED and entry.is_p2p
    }
    whole = bool(content.entries) and content.entries[0].record_id == 0
    counts: Counter[tuple[str, str, int]] = Counter()
    found: list[PointToPoint] = []
    for entry in content.entries:
        message = _MESSAGE.search(entry.profiling_name)
        if message is None:
            continue
        kind, peer = message[1], _global_rank(int(message[3]), entry, dump, roster)
        done = closed.get((entry.group, entry.p2p_seq_id), is_done(entry))
        if whole or not done:
            counts[entry.group, kind, peer] += 1
        if not done:
            name = roster.name((entry.backend, entry.group))
            age = round(moment - entry.time_created_ns / 1e9, 3)
            ordinal = counts[entry.group, kind, peer]
            found.append(PointToPoint(kind, name, peer, ordinal, age=age))
    return found


def _global_rank(local: int, entry: Entry, dump: Dump, roster: Roster) -> int:
    group = (entry.backend, entry.group)
    members = roster.members(group, entry.description, dump.rank)
    return members[local] if local < len(members) else local


def take_back_failures(states: Sequence[RankState]) -> list[RankState]:
    """Count gloo operations that failed as incomplete again.

    gloo retires an operation that timed out as if it had completed. What needs every member
    cannot have completed while a member has never begun it. A member that is further behind
    than one operation was dumped at another moment; of that nothing follows.
    """
    least: dict[_Key, int] = {}
    most: dict[_Key, int] = {}
    reporting: Counter[_Key] = Counter()
    members: dict[_Key, tuple[int, ...]] = {}
    for progress in (one for state in states for one in state.groups):
        key = _key(progress)
        members[key] = progress.ranks
        reporting[key] += 1
        least[key] = min(progress.enqueued, least.get(key, progress.enqueued))
        most[key] = max(progress.completed, most.get(key, 0))
    dumped = {state.rank for state in states}
    for key, ranks in members.items():
        # A rank that has recorded nothing in the group has begun nothing in it.
        if reporting[key] < len(ranks) and reporting[key] < len(dumped.intersection(ranks)):
            least[key] = 0
    reached = {key: number for key, number in least.items() if most[key] == number + 1}
    return [_take_back(state, reached) for state in states] if reached else list(states)


def _key(progress: GroupProgress) -> _Key:
    ranks = progress.ranks
    return (progress.name, len(ranks), ranks[0] if ranks else -1, ranks[-1] if ranks else -1)


def _take_back(state: RankState, reached: dict[_Key, int]) -> RankState:
    groups = tuple(_reopen(one, reached.get(_key(one))) for one in state.groups)
    waits = state.in_flight or any(one.enqueued > one.completed for one in groups)
    return replace(state, groups=groups, in_flight=waits)


def _reopen(progress: GroupProgress, reached_by_all: int | None) -> GroupProgress:
    last = progress.recent[-1] if progress.recent else None
    if progress.backend != "gloo" or last is None or reached_by_all is None:
        return progress
    if last.number <= reached_by_all or last.number != progress.enqueued:
        return progress
    if not last.op.replace("_", "").startswith(_NEEDS_ALL):
        return progress
    return replace(
        progress,
        completed=last.number - 1,
        pending=(replace(last, done=False), *progress.pending),
        recent=progress.recent[:-1],
    )
