"""A rank that has not completed what others of its groups have is the one whose GPU stopped."""

from typing import Any

import pytest
from msgspec.structs import replace

from scenes import NOW, inside
from unstuck.diagnose.diagnose import diagnose
from unstuck.explain.advice.advice import advise
from unstuck.model.doing import DeviceStopped
from unstuck.model.rank import (
    GroupProgress,
    Operation,
    Pace,
    Phase,
    PointToPoint,
    Process,
    ProcessState,
    RankState,
)
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause, Confidence, Verdict

Counts = dict[str, dict[int, tuple[int, int]]]
"""Per group and member: how many operations it has issued and completed."""


def judge(counts: Counts, op: str = "all_reduce", backend: str = "nccl", **more: Any) -> Verdict:
    """Return the verdict on ranks that have issued and completed this many."""
    ranks = sorted({rank for members in counts.values() for rank in members})
    states = tuple(replace(_state(rank, counts, op, backend), **more) for rank in ranks)
    found = diagnose(Snapshot(NOW, (NodeState("h-1", "h", 0.4),), states, 0, len(ranks))).verdict
    assert found is not None
    return found


def _state(rank: int, counts: Counts, op: str, backend: str) -> RankState:
    groups = tuple(
        _progress(name, tuple(sorted(members)), members[rank], op, backend)
        for name, members in counts.items()
        if rank in members
    )
    return RankState(
        rank=rank,
        host="h",
        process=Process(100 + rank, ProcessState.SLEEPING, "futex_wait_queue"),
        phase=Phase.RUN,
        stalled_for=60.0,
        in_flight=True,
        pace=Pace(gaps=100, typical=0.1, longest=0.2),
        groups=groups,
        stack=inside(op),
        recorder_age=0.5,
        stack_age=0.5,
    )


def _progress(
    name: str, ranks: tuple[int, ...], counted: tuple[int, int], op: str, backend: str
) -> GroupProgress:
    issued, completed = counted
    pending = tuple(
        Operation(name, number, op, ((4,),), ("Float",), 60.0 - number / 1000)
        for number in range(completed + 1, issued + 1)
    )
    return GroupProgress(name, ranks, issued, completed, "", backend, pending)


def named(verdict: Verdict) -> list[int]:
    return [one.rank for one in verdict.culprits]


def lagging(*completed: int, issued: int = 50) -> Counts:
    return {"0": {rank: (issued, done) for rank, done in enumerate(completed)}}


def test_the_rank_that_completed_less_is_named_with_the_counts():
    verdict = judge(lagging(42, 42, 40, 42))
    assert (verdict.cause, verdict.confidence) == (Cause.HARDWARE_FAULT, Confidence.LIKELY)
    assert named(verdict) == [2]
    assert verdict.culprits[0].activity == DeviceStopped("group 0", 40, 42)
    assert verdict.victims == (0, 1, 3)
    assert any("completed 40 operations of group 0" in item.text for item in verdict.evidence)
    others = {one.cause for one in verdict.alternatives}
    assert {Cause.TRANSPORT_STALL, Cause.SOFTWARE_BUG, Cause.HOST_DEADLOCK} == others


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_advice_looks_at_the_gpu_and_keeps_the_timeout(lang: str):
    advised = advise(judge(lagging(42, 42, 40, 42)), lang)
    assert "nvidia-smi" in advised.do[0]
    assert "dcgmi" in advised.do[1]
    assert any(("timeout" in line) or ("超时" in line) for line in advised.dont)
    assert not any("guilty" in line for line in advised.dont)


def test_equal_counts_accuse_nobody():
    verdict = judge(lagging(42, 42, 42, 42))
    assert (verdict.cause, verdict.culprits) == (Cause.TRANSPORT_STALL, ())


def test_on_gloo_counts_are_not_compared():
    verdict = judge(lagging(42, 42, 40, 42), backend="gloo")
    assert verdict.cause is not Cause.HARDWARE_FAULT


def test_a_single_operation_is_said_with_doubt():
    verdict = judge(lagging(42, 42, 41, 42))
    assert (named(verdict), verdict.confidence) == ([2], Confidence.POSSIBLE)


@pytest.mark.parametrize("completed", [(42, 41), (42, 41, 41, 42), (42, 40, 40, 40)])
def test_a_torn_operation_or_a_majority_behind_accuses_nobody(completed: tuple[int, ...]):
    assert judge(lagging(*completed)).cause is not Cause.HARDWARE_FAULT


@pytest.mark.parametrize("op", ["broadcast", "reduce", "gather", "scatter"])
def test_an_operation_that_some_complete_earlier_proves_nothing(op: str):
    assert judge(lagging(42, 42, 40, 42), op).cause is not Cause.HARDWARE_FAULT


def test_two_that_are_behind_each_other_are_a_tie():
    counts: Counts = {
        "a": {0: (50, 40), 1: (50, 42)},
        "b": {0: (50, 42), 1: (50, 40)},
    }
    assert judge(counts).cause is not Cause.HARDWARE_FAULT


def test_most_groups_decide():
    counts: Counts = {
        "tp": {0: (50, 40), 1: (50, 44)},
        "ep": {0: (50, 40), 1: (50, 44), 2: (50, 44), 3: (50, 44)},
        "dp": {0: (50, 44), 1: (50, 40)},
    }
    assert named(judge(counts)) == [0]


def test_two_gpus_may_stop():
    counts: Counts = {
        "tp0": {0: (50, 40), 1: (50, 44)},
        "tp1": {2: (50, 40), 3: (50, 45)},
        "ep": {0: (50, 40), 1: (50, 44), 2: (50, 40), 3: (50, 44)},
    }
    assert named(judge(counts)) == [0, 2]


def test_a_rank_that_did_not_issue_it_is_waited_for_by_the_host():
    counts = lagging(42, 42, 42, 42)
    counts["0"][2] = (41, 41)
    assert judge(counts).cause is not Cause.HARDWARE_FAULT


def test_a_group_with_messages_under_way_is_not_compared():
    message = PointToPoint("send", "0", 1, 7, age=1.0)
    verdict = judge(lagging(42, 42, 40, 42), p2p=(message,))
    assert verdict.cause is not Cause.HARDWARE_FAULT
