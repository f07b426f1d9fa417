"""Verdict and history in, plan out: limits hold, nothing acts twice, every plan ends."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.act.defaults import policy
from unstuck.act.plan import (
    ENDING,
    NEVER_PASSES,
    Did,
    Ground,
    decide,
    exit_of,
    in_a_row,
    is_proven,
    words,
)
from unstuck.act.policy import Limits, parse_table
from unstuck.model.action import TELLING, Action, Step
from unstuck.model.exits import Exit
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict

RECOVER = policy(recover=True)
ONE_NODE = Ground("a/1", 3, ("h",), 1, 5, 20.0)
LOOKS_WELL = (
    *((cause, sure) for cause in ("busy-elsewhere", "host-deadlock") for sure in Confidence),
    *((cause, sure) for cause in ("straggler", "never-joined") for sure in Confidence),
    *((cause, "likely") for cause in ("collective-mismatch", "uneven-work", "transport-stall")),
    *((cause, "possible") for cause in ("collective-mismatch", "unknown", "process-stopped")),
)


def verdict(cause: Cause, *ranks: int, host: str = "h", **fields: Any) -> Verdict:
    culprits = tuple(Culprit(rank, host, "sleeps") for rank in ranks or (2,))
    return Verdict(
        cause, fields.pop("confidence", Confidence.CERTAIN), culprits, (0,), "", **fields
    )


def restarted(step: int = 5, cause: Cause = Cause.PROCESS_CRASH, *ranks: int, **fields: Any) -> Did:
    return Did(Action.RESTART, "a/0", cause, ranks or (2,), step, **fields)


def touching(found: tuple[Step, ...]) -> list[str]:
    return [str(step) for step in found if step.action not in TELLING]


verdicts = st.builds(
    verdict,
    st.sampled_from(Cause),
    st.integers(0, 3),
    host=st.sampled_from(["h", "g", ""]),
    confidence=st.sampled_from(Confidence),
    slowdown=st.sampled_from([0.0, 2.0]),
    until=st.sampled_from(["", "2026-11-16T00:00:00.000Z"]),
)
pasts = st.lists(
    st.builds(
        Did,
        st.sampled_from([Action.WAIT, Action.RESTART, Action.EXCLUDE, Action.STOP]),
        st.sampled_from(["a/0", "a/1"]),
        st.sampled_from(Cause),
        st.tuples(st.integers(0, 3)),
        st.integers(0, 9),
        st.sampled_from([10.0, 700.0]),
    ),
    max_size=8,
).map(tuple)
grounds = st.builds(
    Ground,
    st.sampled_from(["a/0", "a/1", "a/2"]),
    st.sampled_from([None, 0, 3]),
    st.sampled_from([(), ("h",), ("h", "g"), ("g", "h", "i")]),
    st.integers(1, 3),
    st.integers(0, 9),
    st.sampled_from([10.0, 700.0]),
)


@given(verdicts, pasts, grounds)
def test_every_plan_ends_and_holds_its_limits(told: Verdict, past: tuple[Did, ...], ground: Ground):
    steps = decide(told, RECOVER, past, ground).steps
    acts = [step.action for step in steps]
    assert {Action.DUMP, Action.REPORT} <= {*acts}
    if not touching(steps):
        return
    assert acts[-1] is Action.STOP
    assert acts.count(Action.STOP) == 1
    assert exit_of(steps[-1]) in Exit
    assert is_proven(told)
    assert not told.slowdown
    assert not told.until
    assert not any(did.action is Action.STOP for did in past)
    assert not any(did.attempt == ground.attempt and did.action in ENDING for did in past)
    if {Action.RESTART, Action.EXCLUDE} & {*acts}:
        assert ground.restarts_left
        assert len(in_a_row(past, ground, RECOVER.limits)) < RECOVER.limits.restarts
    if told.confidence is Confidence.POSSIBLE and told.cause not in NEVER_PASSES:
        first = next(step for step in steps if step.action not in TELLING)
        assert first.action is Action.WAIT
        assert first.seconds >= RECOVER.limits.unsure
    assert all(words(step) for step in steps)


@given(verdicts, pasts, grounds)
def test_without_recover_nothing_is_ever_touched(
    told: Verdict, past: tuple[Did, ...], ground: Ground
):
    steps = decide(told, policy(recover=False), past, ground).steps
    assert [step.action for step in steps] == [Action.DUMP, Action.REPORT]


def test_crash_is_restarted():
    plan = decide(verdict(Cause.PROCESS_CRASH), RECOVER, (), ONE_NODE)
    assert touching(plan.steps) == ["restart:3", "stop:person"]
    assert plan.notes == ()


def test_same_crash_without_progress_ends_in_a_storm():
    past = (restarted(), restarted(), restarted())
    plan = decide(verdict(Cause.PROCESS_CRASH), RECOVER, past, ONE_NODE)
    assert touching(plan.steps) == ["stop:storm"]
    assert exit_of(plan.steps[-1]) is Exit.STORM
    assert plan.notes == ("rank 2: process-crash again; restarted 3 times without progress",)


def test_storm_of_any_causes_ends_too():
    causes = [Cause.HOST_DEADLOCK, Cause.PROCESS_CRASH, Cause.OUT_OF_MEMORY, Cause.UNKNOWN]
    past = tuple(restarted(5, cause, rank) for rank, cause in enumerate([*causes, causes[0]]))
    plan = decide(verdict(Cause.PROCESS_CRASH, 7), RECOVER, past, ONE_NODE)
    assert touching(plan.steps) == ["stop:storm"]
    assert plan.notes == ("5 restarts in a row brought no progress",)


@pytest.mark.parametrize(
    "past",
    [
        (restarted(), restarted(), restarted(4)),
        (restarted(5, Cause.PROCESS_CRASH, 1), *[restarted()] * 2),
        (restarted(5, Cause.HOST_DEADLOCK), *[restarted()] * 2),
        (restarted(), restarted(), restarted(5, ran_for=700.0), restarted(5)),
    ],
    ids=["further", "another rank", "another cause", "long ago"],
)
def test_progress_another_rank_or_cause_is_no_storm(past: tuple[Did, ...]):
    plan = decide(verdict(Cause.PROCESS_CRASH), RECOVER, past, ONE_NODE)
    assert touching(plan.steps)[0] == "restart:3"


def test_own_limit_of_a_cause_keeps_its_own_exit_code():
    past = (restarted(5, Cause.OUT_OF_MEMORY),)
    plan = decide(verdict(Cause.OUT_OF_MEMORY), RECOVER, past, ONE_NODE)
    assert touching(plan.steps) == ["stop:settings"]


@pytest.mark.parametrize("left", [0, None])
def test_launcher_without_restarts_leaves_it_to_the_scheduler(left: int | None):
    ground = Ground("a/0", left, ("h",))
    plan = decide(verdict(Cause.PROCESS_CRASH), RECOVER, (), ground)
    assert touching(plan.steps) == ["stop:retry"]
    assert "left to the scheduler" in plan.notes[0]


def test_lost_node_is_left_behind_where_enough_remain():
    ground = Ground("a", 3, ("h", "g", "i"), 2)
    lost = verdict(Cause.NODE_FAILURE, 2, host="g")
    assert touching(decide(lost, RECOVER, (), ground).steps) == [
        "wait:15s",
        "checkpoint:30s",
        "exclude:3600s",
        "stop:node",
    ]


@pytest.mark.parametrize(
    ("hosts", "fewest", "culprit", "note"),
    [
        (("h", "g"), 2, "g", "too few"),
        (("g", "h", "i"), 1, "g", "runs the hub"),
        (("h", "g"), 1, "", "no node is to blame"),
    ],
)
def test_node_that_cannot_be_left_behind_stops_the_job(
    hosts: tuple[str, ...], fewest: int, culprit: str, note: str
):
    lost = verdict(Cause.NODE_FAILURE, 2, host=culprit)
    plan = decide(lost, RECOVER, (), Ground("a", 3, hosts, fewest))
    assert touching(plan.steps) == ["wait:15s", "checkpoint:30s", "stop:node"]
    assert note in plan.notes[0]


def test_mismatch_is_stopped_at_once():
    plan = decide(verdict(Cause.COLLECTIVE_MISMATCH), RECOVER, (), ONE_NODE)
    assert touching(plan.steps) == ["stop:code"]


@pytest.mark.parametrize(("cause", "confidence"), LOOKS_WELL)
def test_what_a_healthy_rank_can_look_like_is_reported_only(cause: str, confidence: str):
    told = verdict(Cause(cause), confidence=Confidence(confidence))
    plan = decide(told, RECOVER, (), ONE_NODE)
    assert touching(plan.steps) == []
    assert {step.action for step in plan.steps} == TELLING


@pytest.mark.parametrize("cause", ["process-crash", "out-of-memory", "node-failure"])
def test_whoever_is_gone_is_lost_even_if_the_reason_is_in_doubt(cause: str):
    told = verdict(Cause(cause), confidence=Confidence.LIKELY)
    assert touching(decide(told, RECOVER, (), ONE_NODE).steps)


def test_policy_that_names_the_cause_acts_on_it_all_the_same():
    named = policy(recover=True, on=("host-deadlock=report,restart:2,stop",))
    likely = verdict(Cause.HOST_DEADLOCK, confidence=Confidence.LIKELY)
    assert touching(decide(likely, named, (), ONE_NODE).steps) == ["restart:2", "stop:person"]


@pytest.mark.parametrize("cause", sorted(NEVER_PASSES))
def test_doubt_who_is_wrong_does_not_delay_the_stop(cause: Cause):
    named = policy(recover=True, on=(f"{cause}=report,stop:code",))
    tie = verdict(cause, confidence=Confidence.POSSIBLE)
    assert touching(decide(tie, named, (), ONE_NODE).steps) == ["stop:code"]


def test_doubtful_verdict_must_hold_first():
    named = policy(recover=True, on=("host-deadlock=checkpoint,restart", "unknown=wait:30m,stop"))
    doubtful = verdict(Cause.HOST_DEADLOCK, confidence=Confidence.POSSIBLE)
    plan = decide(doubtful, named, (), ONE_NODE)
    assert touching(plan.steps)[:2] == ["wait:60s", "checkpoint:30s"]
    unknown = verdict(Cause.UNKNOWN, confidence=Confidence.POSSIBLE)
    assert touching(decide(unknown, named, (), ONE_NODE).steps) == ["wait:1800s", "stop:person"]


def test_limits_of_a_file_hold():
    tight = parse_table(RECOVER, {"limits": {"restarts": 1}}, "unstuck.toml")
    plan = decide(verdict(Cause.PROCESS_CRASH, 1), tight, (restarted(5),), ONE_NODE)
    assert touching(plan.steps) == ["stop:storm"]
    assert tight.limits == Limits(restarts=1)
