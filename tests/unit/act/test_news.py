"""Which verdicts are news, given what was reported, and when an incident is over."""

from typing import Any

import pytest

from scenes import job
from unstuck.act.news import ENDS_ATTEMPT, MAY_HEAL, Incidents, Reported, is_news
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict


def verdict(cause: Cause = Cause.BUSY_ELSEWHERE, *ranks: int, **fields: Any) -> Verdict:
    culprits = tuple(Culprit(rank, "h", "sleeps") for rank in ranks or (2,))
    return Verdict(cause, Confidence.CERTAIN, culprits, (0,), "", **fields)


def test_fresh_verdict_is_news():
    assert is_news(verdict(), ())


def test_nothing_twice():
    assert not is_news(verdict(), (Reported.of(verdict()),))
    one, other = verdict(Cause.STRAGGLER, 1, 2), verdict(Cause.STRAGGLER, 2, 1)
    assert not is_news(one, (Reported.of(other),))


@pytest.mark.parametrize(
    "fresh",
    [verdict(Cause.PROCESS_STOPPED), verdict(Cause.BUSY_ELSEWHERE, 3), verdict(attempt=1)],
)
def test_another_cause_culprit_or_attempt_is_news(fresh: Verdict):
    assert is_news(fresh, (Reported.of(verdict()),))


def test_one_slowness_is_reported_once():
    before = (Reported.of(verdict(Cause.STRAGGLER, 2, slowdown=1.5)),)
    assert not is_news(verdict(Cause.STRAGGLER, 2, 3, slowdown=2.5), before)
    assert not is_news(verdict(Cause.RESOURCE_CONTENTION, 2, slowdown=1.5), before)
    assert is_news(verdict(Cause.STRAGGLER, 3, slowdown=1.5), before)
    assert is_news(verdict(Cause.STRAGGLER, 2, slowdown=1.5, attempt=1), before)


def test_slow_rank_that_then_makes_no_progress_is_news():
    before = (Reported.of(verdict(Cause.RESOURCE_CONTENTION, 2, slowdown=1.5)),)
    assert is_news(verdict(Cause.RESOURCE_CONTENTION, 2), before)


@pytest.mark.parametrize("cause", sorted(ENDS_ATTEMPT))
def test_consequences_of_a_lost_attempt_are_not_reported(cause: Cause):
    history = (Reported.of(verdict(cause, 1)),)
    assert not is_news(verdict(Cause.STORE_LOST, 3), history)
    assert is_news(verdict(Cause.STORE_LOST, 3, attempt=1), history)


@pytest.mark.parametrize("cause", sorted(MAY_HEAL))
def test_what_is_over_corrects_once_what_was_reported(cause: Cause):
    healed = verdict(Cause.NETWORK_PARTITION, until="2026-11-16T00:00:00.000Z")
    before = (Reported.of(verdict(cause)),)
    assert is_news(healed, before)
    assert not is_news(healed, (*before, Reported.of(healed)))
    assert not is_news(verdict(Cause.TRANSPORT_STALL), (*before, Reported.of(healed)))


def test_what_is_over_and_was_never_reported_is_no_news():
    healed = verdict(Cause.NETWORK_PARTITION, until="2026-11-16T00:00:00.000Z")
    assert not is_news(healed, ())
    assert not is_news(healed, (Reported.of(verdict(Cause.PROCESS_CRASH)),))
    assert not is_news(healed, (Reported.of(verdict(Cause.NODE_FAILURE, attempt=1)),))


def test_stall_is_over_when_all_its_ranks_move_and_the_next_one_is_news():
    incidents = Incidents()
    incidents.add(verdict())
    assert not incidents.is_news(verdict())
    waiting = job(4).change(2, stalled_for=5.0).snapshot()
    assert incidents.stall_is_over(waiting, acting=False) is None
    assert incidents.stall_is_over(job(4).snapshot(), acting=True) is None
    assert incidents.stall_is_over(job(4).snapshot(), acting=False) == "the job moves again"
    assert not incidents.any_open
    assert incidents.is_news(verdict())


def test_lost_attempt_is_closed_without_a_word_and_its_consequences_stay_no_news():
    incidents = Incidents()
    incidents.add(verdict(Cause.PROCESS_CRASH))
    assert incidents.stall_is_over(job(4).snapshot(), acting=False) == ""
    assert not incidents.is_news(verdict(Cause.STORE_LOST, 3))


def test_rank_that_was_replaced_may_be_lost_again():
    incidents = Incidents()
    incidents.add(verdict(Cause.PROCESS_CRASH))
    incidents.note_replacements(job(4).change(2, stalled_for=5.0).snapshot())
    assert not incidents.is_news(verdict(Cause.PROCESS_CRASH))
    incidents.note_replacements(job(4).snapshot())
    assert incidents.is_news(verdict(Cause.PROCESS_CRASH))


def test_cut_that_healed_may_still_be_corrected():
    incidents = Incidents()
    incidents.add(verdict(Cause.NODE_FAILURE))
    assert incidents.stall_is_over(job(4).snapshot(), acting=False)
    healed = verdict(Cause.NETWORK_PARTITION, until="2026-11-16T00:00:00.000Z")
    assert incidents.is_news(healed)
    incidents.add(healed)
    assert incidents.stall is None
    assert not incidents.is_news(healed)


def test_slow_verdict_of_a_past_attempt_is_dropped():
    incidents = Incidents()
    incidents.add(verdict(Cause.STRAGGLER, slowdown=2.0, attempt=7))
    assert incidents.any_open
    assert incidents.slow_that_recovered(job(4).snapshot()) == []
    assert not incidents.any_open
