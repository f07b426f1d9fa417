"""Dumps of the flight recorder that torch wrote while a job hung: they have the counters."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from unstuck.errors import DumpError
from unstuck.model.rank import RankState
from unstuck.observe.dumps import files, to_snapshot
from unstuck.observe.outside.rank_processes import RankProcess


def add(
    states: Sequence[RankState], processes: Sequence[RankProcess], now: float
) -> tuple[RankState, ...]:
    """Put the counters of the dumps into the states, if every rank has one from this wait.

    A file that is older than the wait of its rank is from an earlier dump, and counts for nothing.
    """
    waits = {state.rank: state.stalled_for for state in states}
    paths = [
        Path(one.dump)
        for one in processes
        if one.dump and _written(one.dump) > now - waits.get(one.rank, 0.0)
    ]
    if not paths or len(paths) < len(states):
        return tuple(states)
    with contextlib.suppress(DumpError):
        dumped = {one.rank: one for one in to_snapshot.make_snapshot(files.read(paths)).ranks}
        if all(state.rank in dumped and not dumped[state.rank].unobserved for state in states):
            return tuple(_with(state, dumped[state.rank]) for state in states)
    return tuple(states)


def _with(state: RankState, dumped: RankState) -> RankState:
    return replace(
        state,
        groups=dumped.groups,
        p2p=dumped.p2p,
        in_flight=dumped.in_flight,
        recorder_age=0.0,
    )


def _written(path: str) -> float:
    with contextlib.suppress(OSError):
        return Path(path).stat().st_mtime
    return 0.0
