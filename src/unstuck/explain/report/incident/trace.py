"""The last operations of all ranks as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

Each rank is a process, each of its groups a thread. The recorder tells when an operation was
issued and whether it has completed, not when: a completed one is drawn to the next one of its
group at the longest, and says so. Nothing is there of ranks whose recorder was not read.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from unstuck.diagnose.text import group_text
from unstuck.model.rank import GroupProgress, Operation, RankState
from unstuck.model.snapshot import Snapshot

_MICRO = 1_000_000
_SHORTEST = 0.0005


def render(snapshot: Snapshot) -> bytes:
    """Return the trace as JSON in Chrome's event format.

    Example:
        Path("trace.json").write_bytes(render(incident.snapshot))
    """
    events = [event for state in snapshot.ranks for event in _of_rank(state)]
    return msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms"})


def is_empty(snapshot: Snapshot) -> bool:
    """Tell whether no recorder was read, so that a trace would show nothing."""
    return not any(g.pending or g.recent for state in snapshot.ranks for g in state.groups)


def _of_rank(state: RankState) -> Iterator[dict[str, Any]]:
    rank = state.rank
    yield _name("process_name", rank, 0, f"rank {rank} ({state.host})")
    yield {"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}}
    for thread, group in enumerate(state.groups):
        if group.pending or group.recent:
            yield _name("thread_name", rank, thread, group_text(group.name, group.description))
            yield from _of_group(rank, thread, group, state.recorder_age or 0.0)


def _of_group(
    rank: int, thread: int, group: GroupProgress, read_ago: float
) -> Iterator[dict[str, Any]]:
    """Yield a slice for each operation; ages are those at which the recorder was read."""
    operations = sorted((*group.recent, *group.pending), key=lambda one: one.number)
    ends = [following.age for _, following in pairwise(operations)] + [0.0]
    for one, end in zip(operations, ends, strict=True):
        until = max(0.0, min(end, one.age)) if one.done else -read_ago
        yield {
            "ph": "X",
            "name": one.op.rsplit(":", 1)[-1],
            "cat": "completed" if one.done else "in flight",
            "pid": rank,
            "tid": thread,
            "ts": round(-(one.age + read_ago) * _MICRO),
            "dur": round(max(_SHORTEST, one.age - until) * _MICRO),
            "args": _about(one),
        }


def _about(one: Operation) -> dict[str, Any]:
    told = "no later than drawn" if one.done else "has not completed"
    return {"number": one.number, "sizes": one.sizes, "dtypes": one.dtypes, "completed": told}


def _name(kind: str, rank: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": rank, "tid": thread, "args": {"name": name}}
