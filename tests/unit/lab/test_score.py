"""Runs are judged by what their scenario expects: cause, culprit, time, and silence."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from unstuck.lab.run import Blamed, Run
from unstuck.lab.scenario import Scenario
from unstuck.lab.score import judge, percentile, score
from unstuck.model.verdict import Cause

HANG = Scenario(
    name="hang",
    kind="hang",
    program=Path("p.py"),
    causes=(Cause.PROCESS_STOPPED,),
    culprits=(2,),
    goal=5.0,
    limit=30.0,
)
DEATH = msgspec.structs.replace(
    HANG, name="death", kind="death", causes=(Cause.PROCESS_CRASH,), goal=1.0
)
CUT = msgspec.structs.replace(
    HANG,
    name="cut",
    kind="network",
    causes=(Cause.NETWORK_PARTITION, Cause.NODE_FAILURE),
    culprits=(),
    culprit_hosts=("node1",),
    goal=3.0,
    after=(Cause.NETWORK_PARTITION,),
)
FINE = msgspec.structs.replace(HANG, name="fine", kind="healthy", causes=(), culprits=(), goal=0.0)
ALL = [HANG, DEATH, CUT, FINE]


def run_of(scenario: Scenario, number: int = 1, **facts: Any) -> Run:
    """Make a run that is right, changed by `facts`."""
    right: dict[str, Any] = {
        "hang": {"cause": "process-stopped", "culprits": (Blamed(2, "a"),), "seconds": 2.0},
        "death": {"cause": "process-crash", "culprits": (Blamed(2, "a"),), "seconds": 0.5},
        "cut": {
            "cause": "node-failure",
            "culprits": (Blamed(2, "node1"), Blamed(3, "node1")),
            "seconds": 2.5,
            "after": "network-partition",
        },
        "fine": {"exit_code": 0, "watched": 1800.0},
    }[scenario.name]
    return Run(scenario.name, number, **{**right, **facts})


@pytest.mark.parametrize("scenario", ALL, ids=lambda each: each.name)
def test_a_run_as_expected_is_right_in_every_way(scenario: Scenario):
    judged = judge(scenario, run_of(scenario))

    assert judged.wrong == ""
    assert judged.cause_right
    assert judged.culprit_right
    assert judged.in_time
    assert judged.innocents == 0


@pytest.mark.parametrize(
    ("scenario", "facts", "wrong"),
    [
        (HANG, {"cause": "straggler"}, "straggler of 2; right is process-stopped of 2"),
        (HANG, {"cause": None, "culprits": (), "seconds": None}, "no verdict within 30 s"),
        (HANG, {"culprits": ()}, "process-stopped of nobody; right is process-stopped of 2"),
        (HANG, {"seconds": 5.2}, "after 5.20 s, later than 5 s"),
        (HANG, {"seconds": -3.0}, "process-stopped of 2, 3.0 s before the fault"),
        (
            CUT,
            {"after": "node-failure"},
            "after it healed node-failure of nobody; right is network-partition of any",
        ),
        (FINE, {"cause": "unknown", "culprits": (Blamed(0, "a"),)}, "unknown of 0"),
        (FINE, {"exit_code": 1}, "exit code 1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(scenario: Scenario, facts: dict[str, Any], wrong: str):
    assert judge(scenario, run_of(scenario, **facts)).wrong == wrong


def test_an_innocent_beside_the_culprit_is_counted_and_makes_the_culprit_wrong():
    judged = judge(HANG, run_of(HANG, culprits=(Blamed(1, "a"), Blamed(2, "a"))))

    assert judged.innocents == 1
    assert judged.cause_right
    assert not judged.culprit_right


def test_where_a_host_is_to_blame_a_rank_of_another_host_is_innocent():
    judged = judge(CUT, run_of(CUT, culprits=(Blamed(0, "node0"), Blamed(2, "node1"))))

    assert judged.innocents == 1
    assert judged.wrong.startswith("node-failure of node0, node1; right is")


@pytest.mark.parametrize(
    ("cut", "wrong"),
    [
        (("node1", "node2"), ""),
        (("node0", "node1"), "node-failure of node0, node1; right is"),
        ((), "node-failure of nobody; right is"),
    ],
)
def test_of_a_way_that_is_cut_both_ends_must_be_named(cut: tuple[str, ...], wrong: str):
    split = msgspec.structs.replace(CUT, culprit_hosts=("node1", "node2"))
    judged = judge(split, run_of(split, culprits=(), cut=cut))

    assert judged.wrong.startswith(wrong)
    assert judged.culprit_right == (wrong == "")


def test_proof_that_was_seen_a_moment_after_the_verdict_does_not_make_it_early():
    assert judge(DEATH, run_of(DEATH, seconds=-0.05)).wrong == ""


def test_the_score_sums_up_causes_culprits_times_and_false_alarms():
    runs = [
        run_of(HANG, 1, seconds=2.0),
        run_of(HANG, 2, seconds=4.0),
        run_of(DEATH, 1),
        run_of(DEATH, 2, cause="out-of-memory"),
        run_of(CUT, 1, culprits=(Blamed(0, "node0"),)),
        run_of(FINE, 1),
        run_of(FINE, 2, cause="straggler", culprits=(Blamed(3, "a"),)),
    ]
    total = score(ALL, runs)

    assert (total.runs, total.right) == (7, 4)
    assert total.confusion == {
        "network-partition or node-failure": {"node-failure": 1},
        "no verdict": {"no verdict": 1, "straggler": 1},
        "process-crash": {"process-crash": 1, "out-of-memory": 1},
        "process-stopped": {"process-stopped": 2},
    }
    assert (total.culprits_right, total.culprits_asked, total.innocents) == (4, 5, 2)
    assert (total.healthy_hours, total.false_alarms, total.false_alarms_per_hour) == (1.0, 1, 1.0)
    assert [j.scenario for j in total.wrong] == ["death", "cut", "fine"]
    hang = next(each for each in total.latencies if each.kind == "hang")
    assert (hang.runs, hang.p50, hang.p95, hang.max, hang.met) == (2, 2.0, 4.0, 4.0, True)
    assert not total.good


def test_a_missing_verdict_is_a_missed_goal_even_if_the_others_were_quick():
    total = score(ALL, [run_of(HANG, 1), run_of(HANG, 2, cause=None, culprits=(), seconds=None)])

    assert [each.met for each in total.latencies] == [False]


def test_runs_without_proof_do_not_count_but_are_told():
    fault_failed = Run("hang", 1, trouble="no proof of the fault within 30 s")
    total = score(ALL, [fault_failed, run_of(DEATH)])

    assert total.runs == 1
    assert total.not_counted == (fault_failed,)
    assert not total.good


def test_what_cannot_run_here_is_told_and_is_no_failure():
    total = score(ALL, [Run("cut", 1, skipped="network namespaces need root"), run_of(DEATH)])

    assert [run.skipped for run in total.not_counted] == ["network namespaces need root"]
    assert total.good


def test_nothing_run_is_nothing_proven():
    assert not score(ALL, []).good


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([3.0], 0.95, 3.0), ([1, 2, 3, 4], 0.5, 2), (range(1, 101), 0.95, 95), ([1, 9], 0.95, 9)],
)
def test_percentiles_are_values_that_were_measured(values: Any, share: float, expected: float):
    assert percentile(list(values), share) == expected


def test_a_rank_that_may_be_blamed_as_well_is_neither_needed_nor_innocent():
    either = msgspec.structs.replace(HANG, beside=(3,))
    both = run_of(HANG, culprits=(Blamed(2, "a"), Blamed(3, "a")))

    assert [judge(either, run).wrong for run in (run_of(HANG), both)] == ["", ""]
    assert judge(either, run_of(HANG, culprits=(Blamed(3, "a"),))).wrong


def test_scenarios_with_a_goal_of_their_own_are_timed_apart():
    patient = msgspec.structs.replace(HANG, name="patient", goal=35.0)
    late = msgspec.structs.replace(run_of(HANG, seconds=30.0), scenario="patient")
    total = score([HANG, patient], [run_of(HANG), late])

    assert [(each.goal, each.max) for each in total.latencies] == [(5.0, 2.0), (35.0, 30.0)]
    assert total.good
