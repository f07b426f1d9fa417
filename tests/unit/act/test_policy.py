"""What is done about a verdict, given what was done before."""

from typing import Any

import pytest

from unstuck.act.policy import FATAL, plan
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


@pytest.mark.parametrize("cause", sorted(FATAL))
def test_consequences_of_a_fatal_verdict_are_not_told(cause: Cause):
    history = (Told.of(verdict(cause, 1)),)
    assert plan(verdict(Cause.STORE_LOST, 3), history) == ()
    assert plan(verdict(Cause.STORE_LOST, 3, attempt=1), history) == BOTH
