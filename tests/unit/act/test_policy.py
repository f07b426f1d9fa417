"""What is done about a verdict, given what was done before."""

from typing import Any

import pytest

from unstuck.act.policy import FATAL, MAY_HEAL, plan
from unstuck.model.action import Action, Told
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict


def verdict(cause: Cause = Cause.BUSY_ELSEWHERE, *ranks: int, **fields: Any) -> Verdict:
    culprits = tuple(Culprit(rank, "h", "sleeps") for rank in ranks or (2,))
    return Verdict(cause, Confidence.CERTAIN, culprits, (0,), "", **fields)


BOTH = (Action.DUMP, Action.REPORT)


def test_fresh_verdict_is_stored_then_told():
    assert plan(verdict(), ()) == BOTH


def test_nothing_twice():
    assert plan(verdict(), (Told.of(verdict()),)) == ()
    one, other = verdict(Cause.STRAGGLER, 1, 2), verdict(Cause.STRAGGLER, 2, 1)
    assert plan(one, (Told.of(other),)) == ()


@pytest.mark.parametrize(
    "fresh",
    [verdict(Cause.PROCESS_STOPPED), verdict(Cause.BUSY_ELSEWHERE, 3), verdict(attempt=1)],
)
def test_another_cause_culprit_or_attempt_is_told(fresh: Verdict):
    assert plan(fresh, (Told.of(verdict()),)) == BOTH


def test_one_slowness_is_told_once():
    told = (Told.of(verdict(Cause.STRAGGLER, 2, slowdown=1.5)),)
    assert plan(verdict(Cause.STRAGGLER, 2, 3, slowdown=2.5), told) == ()
    assert plan(verdict(Cause.RESOURCE_CONTENTION, 2, slowdown=1.5), told) == ()
    assert plan(verdict(Cause.STRAGGLER, 3, slowdown=1.5), told) == BOTH
    assert plan(verdict(Cause.STRAGGLER, 2, slowdown=1.5, attempt=1), told) == BOTH


def test_slow_rank_that_then_stands_is_news():
    told = (Told.of(verdict(Cause.RESOURCE_CONTENTION, 2, slowdown=1.5)),)
    assert plan(verdict(Cause.RESOURCE_CONTENTION, 2), told) == BOTH


@pytest.mark.parametrize("cause", sorted(FATAL))
def test_consequences_of_a_fatal_verdict_are_not_told(cause: Cause):
    history = (Told.of(verdict(cause, 1)),)
    assert plan(verdict(Cause.STORE_LOST, 3), history) == ()
    assert plan(verdict(Cause.STORE_LOST, 3, attempt=1), history) == BOTH


@pytest.mark.parametrize("told", sorted(MAY_HEAL))
def test_what_is_over_corrects_what_was_told_once(told: Cause):
    healed = verdict(Cause.NETWORK_PARTITION, until="2026-11-16T00:00:00.000Z")
    before = (Told.of(verdict(told)),)
    assert plan(healed, before) == BOTH
    assert plan(healed, (*before, Told.of(healed))) == ()
    assert plan(verdict(Cause.TRANSPORT_STALL), (*before, Told.of(healed))) == ()


def test_what_is_over_and_was_never_told_is_no_news():
    healed = verdict(Cause.NETWORK_PARTITION, until="2026-11-16T00:00:00.000Z")
    assert plan(healed, ()) == ()
    assert plan(healed, (Told.of(verdict(Cause.PROCESS_CRASH)),)) == ()
    assert plan(healed, (Told.of(verdict(Cause.NODE_FAILURE, attempt=1)),)) == ()
