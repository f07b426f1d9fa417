"""From dumps to the snapshot that diagnosis reads.

A dump is written after the fact: by a watchdog whose timeout has passed, or by a person who has
seen that the job hangs. The patience of live watching therefore must not apply. So every rank
gets a pace that has been learned and is fast, and the snapshot is dated a good while after the
newest event in any dump: by the timeout of the oldest incomplete operation for NCCL, whose
watchdog writes when it expires, and never by less than a minute. `since` in the verdict is then
exact, while durations are as exact as that date: a dump does not say when it was written.

Several dumps of one rank count once: the newest of each backend is taken. Ranks that belong to
the job but left no dump are in the snapshot as ranks that cannot be seen, with the reason.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from unstuck.model.rank import CodeLine, GroupProgress, Pace, Phase, Process, RankState
from unstuck.model.snapshot import Snapshot
from unstuck.observe.dumps.files import Dump, Entry, Reading
from unstuck.observe.dumps.members import Roster, backend_of, make_roster
from unstuck.observe.dumps.progress import count_messages, is_done, progress_of, take_back_failures
from unstuck.observe.probe.frames import is_user_code

AFTERWARDS = 60.0
"""Seconds between the newest event in any dump and the moment that the snapshot shows."""
_LEARNED = Pace(gaps=1_000, typical=0.001, longest=0.001)
_DAY = 86_400.0


def make_snapshot(reading: Reading) -> Snapshot:
    """Turn dumps into the state of the job when they were written.

    Example:
        diagnose(make_snapshot(read([Path("traces")]))).verdict
    """
    dumps = newest(reading.dumps)
    roster = make_roster(dumps, reading.refused)
    moment = _moment(dumps)
    by_rank: dict[int, list[Dump]] = defaultdict(list)
    for dump in dumps:
        by_rank[dump.rank].append(dump)
    states = take_back_failures(
        [_state(rank, by_rank[rank], roster, moment) for rank in sorted(by_rank)]
    )
    known = {state.rank for state in states}
    # Most ranks share their groups, hence each tuple of members is looked at once.
    tuples = {id(group.ranks): group.ranks for state in states for group in state.groups}
    needed = set(roster.world).union(*tuples.values())
    unseen = [_unseen(rank, refused=rank in reading.refused) for rank in sorted(needed - known)]
    ranks = tuple(sorted((*states, *unseen), key=lambda state: state.rank))
    size = len(ranks)
    return Snapshot(
        taken_at=moment,
        ranks=tuple(replace(state, world_size=size) for state in ranks),
        world_size=size,
    )


def newest(dumps: Iterable[Dump]) -> list[Dump]:
    """Keep one dump per rank and backend, the newest; equal ones are the same moment."""
    kept: dict[tuple[int, str], Dump] = {}
    for dump in dumps:
        key = (dump.rank, backend_of(dump.content))
        held = kept.get(key)
        if held is None or _progress_key(dump) > _progress_key(held):
            kept[key] = dump
    return list(kept.values())


def _progress_key(dump: Dump) -> tuple[float, int, bool]:
    entries = dump.content.entries
    # Of a JSON and a pickle of the same moment, the one with stacks has more.
    return (dump.last_stamp, len(entries), any(entry.frames for entry in entries))


def _moment(dumps: Sequence[Dump]) -> float:
    last = max((dump.last_stamp for dump in dumps), default=0.0)
    waits = [
        entry.timeout_ms / 1000
        for dump in dumps
        for entry in dump.content.entries
        if entry.backend == "nccl" and not is_done(entry)
    ]
    return last + min(max(AFTERWARDS, min(waits, default=0.0)), _DAY)


def _state(rank: int, dumps: list[Dump], roster: Roster, moment: float) -> RankState:
    groups: list[GroupProgress] = []
    for dump in dumps:
        groups += progress_of(dump, roster, moment)
    entries = [entry for dump in dumps for entry in dump.content.entries]
    messages = tuple(one for dump in dumps for one in count_messages(dump, roster, moment))
    pending = [entry for entry in entries if not is_done(entry)]
    oldest = min(pending, key=_created, default=None)
    last = max(entries, key=_created, default=None)
    shown = oldest or last
    return RankState(
        rank=rank,
        host="",
        process=Process(pid=0),
        phase=Phase.RUN,
        stalled_for=round(moment - _created(shown), 3) if shown else AFTERWARDS,
        in_flight=bool(messages) or any(one.enqueued > one.completed for one in groups),
        pace=_LEARNED,
        groups=tuple(groups),
        p2p=messages,
        stack=_stack(shown) if shown else (),
        recorder_age=0.0,
        stack_age=0.0,
    )


def _unseen(rank: int, *, refused: bool) -> RankState:
    why = "its dump could not be read" if refused else "there is no dump of it"
    return RankState(rank=rank, host="", process=Process(pid=0), unobserved=why)


def _stack(entry: Entry) -> tuple[CodeLine, ...]:
    """Give the user's own line from which an operation was issued.

    Not the frames of torch above it: they would say that the thread is inside this call, while
    on a GPU it may have gone on long ago.
    """
    for frame in entry.frames:
        if frame.filename and is_user_code(frame.filename):
            return (CodeLine(frame.filename, frame.line, frame.name, user=True),)
    return ()


def _created(entry: Entry) -> float:
    return entry.time_created_ns / 1e9
