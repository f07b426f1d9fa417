"""Which ranks are named as culprits."""

from log_scenes import match, verdict, wait
from unstuck.model.logs import (
    LogLine,
    LogMatch,
)
from unstuck.model.verdict import Cause


def test_nobody_is_named_when_most_ranks_are_silent():
    assert verdict([wait(6)], world_size=8).culprits == ()


def test_a_rank_at_another_operation_is_the_culprit():
    found = verdict([wait(0), wait(1), wait(2, op="BROADCAST"), wait(3)])
    assert found.cause is Cause.COLLECTIVE_MISMATCH
    assert [(c.rank, c.doing) for c in found.culprits] == [(2, "is in BROADCAST")]
    assert found.stuck is not None
    assert (found.stuck.op, found.stuck.waiting, found.stuck.missing) == (
        "ALLREDUCE",
        (0, 1, 3),
        (2,),
    )


def test_the_ranks_that_a_message_names_are_the_culprits():
    found = verdict([match("killed", 1, 0, missing_ranks="4, 5")])
    assert [c.rank for c in found.culprits] == [4, 5]


def test_torchs_own_desync_report_names_the_late_ranks():
    text = "To our best knowledge, ranks [2] are the lagging ranks that caused this timeout"
    report = LogMatch("talk", "diagnostic", LogLine("log", 99, text), {"ranks": "2"})
    found = verdict([report, wait(0), wait(1)], world_size=8)
    assert [(c.rank, c.doing) for c in found.culprits] == [(2, "did not arrive")]
