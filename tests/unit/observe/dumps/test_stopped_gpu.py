"""Dumps of the shape that a real Megatron job left: only active entries, counts in pg_status.

The counts are those of the last stage of a job of 16 ranks (tensor, pipeline and expert
parallelism) in which the GPUs of ranks 12 and 14 stopped. Groups have a number of the rank's own in
`pg_status` and another name in `pg_config`.
"""

from pathlib import Path
from typing import Any

from recorded import (
    blamed,
    dump,
    put,
    rank,
    scheduled,
    snapshot_of,
    verdict_of,
)
from unstuck.model.verdict import Cause, Confidence

Counts = dict[str, tuple[int, int]]
"""Per group: issued and completed."""
MEMBERS = {
    "0": range(16),
    "41": (12, 13),
    "42": (14, 15),
    "58": (12, 13, 14, 15),
    "69": (12, 13),
    "70": (14, 15),
    "74": (12, 13, 14, 15),
    "94": (12, 13, 14, 15),
}
OPS = {"58": "all_reduce", "69": "all_reduce", "70": "all_reduce", "74": "all_to_all"}
STOPPED: dict[int, Counts] = {
    12: {"41": (42817, 42805), "58": (6871, 6869), "69": (3455, 3454), "74": (20536, 20529)},
    13: {"41": (42826, 42817), "58": (6872, 6871), "69": (3456, 3455), "74": (20538, 20536)},
    14: {"42": (42826, 42805), "58": (6872, 6869), "70": (3456, 3454), "74": (20538, 20529)},
    15: {"42": (42826, 42818), "58": (6872, 6871), "70": (3456, 3455), "74": (20538, 20536)},
}


def active(counts: Counts) -> Any:
    """Make the dump of a rank that has issued and completed this many operations."""
    names = sorted(("0", *counts), key=int)
    numbers = {name: 2 * place + 1 for place, name in enumerate(names)}
    both = {"0": (163, 163), **counts}
    entries = [
        scheduled(
            number,
            OPS.get(name, "_all_gather_base"),
            pg_id=numbers[name],
            process_group=[name, f"GROUP_{name}"],
            time_created_ns=1_790_000_000_000_000_000 + (number - completed) * 1_000_000,
        )
        for name, (issued, completed) in counts.items()
        for number in range(completed + 1, issued + 1)
    ]
    config = {
        name: {"name": name, "desc": f"GROUP_{name}", "ranks": str(list(MEMBERS[name]))}
        for name in names
    }
    status = {
        str(numbers[name]): {
            "last_enqueued_collective": issued,
            "last_started_collective": -1,
            "last_completed_collective": completed,
        }
        for name, (issued, completed) in both.items()
    }
    return dump(*entries, version="2.9", pg_config=config, pg_status=status)


def write(folder: Path, counts: dict[int, Counts]) -> Path:
    others: dict[int, Any] = {number: active({}) for number in range(12)}
    return put(folder, others | {number: active(one) for number, one in counts.items()}, "_dump_")


def test_the_two_ranks_whose_gpus_stopped_are_named(tmp_path: Path):
    verdict = verdict_of(write(tmp_path, STOPPED))
    assert blamed(verdict) == [12, 14]
    assert verdict is not None
    assert (verdict.cause, verdict.confidence) == (Cause.HARDWARE_FAULT, Confidence.LIKELY)


def test_where_all_completed_the_same_nobody_is_named(tmp_path: Path):
    level = {number: {"74": (20538, 20536)} for number in STOPPED}
    verdict = verdict_of(write(tmp_path, level))
    assert verdict is not None
    assert (verdict.cause, verdict.culprits) == (Cause.TRANSPORT_STALL, ())


def test_a_rank_that_issues_nothing_any_more_is_waited_for(tmp_path: Path):
    held = {number: {"74": (45267, 45264)} for number in STOPPED} | {14: {"74": (45264, 45264)}}
    assert blamed(verdict_of(write(tmp_path, held))) == [14]


def test_a_member_that_completed_everything_is_counted_in_its_own_group(tmp_path: Path):
    ready = STOPPED | {13: {**STOPPED[13], "41": (42817, 42817)}}
    state = rank(snapshot_of(write(tmp_path, ready)), 13)
    found = {one.name: one for one in state.groups}
    assert (found["41"].completed, found["41"].ranks) == (42817, (12, 13))
    assert found["0"].completed == 163
