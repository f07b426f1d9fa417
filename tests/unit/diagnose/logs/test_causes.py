"""Facts choose among the causes of a record, and a weak one decides nothing."""

from log_scenes import match, verdict, wait
from unstuck.model.logs import (
    LogFact,
    LogLine,
    LogPhase,
)
from unstuck.model.verdict import Cause, Confidence


def test_one_weak_sign_does_not_decide_but_the_silent_rank_is_named():
    found = verdict(wait(rank) for rank in (0, 1, 3))
    assert (found.cause, found.confidence) == (Cause.UNKNOWN, Confidence.POSSIBLE)
    assert found.alternatives[0].cause is Cause.UNEVEN_WORK
    assert [(c.rank, c.doing) for c in found.culprits] == [
        (2, "reports nothing while ranks 0,1,3 wait")
    ]


def test_a_refinement_answers_when_its_facts_hold():
    bar = LogPhase(LogFact.PREPARING, LogLine("log", 50, "Map: 3%", 2))
    found = verdict([wait(rank) for rank in (0, 1, 3)], phases=(bar,))
    assert (found.cause, found.confidence) == (Cause.BUSY_ELSEWHERE, Confidence.LIKELY)
    assert found.records == ("busy", "timeout")
    assert [(c.rank, c.doing) for c in found.culprits] == [(2, "was still preparing data")]
    assert found.because == "these lines show: data was still being prepared"


def test_a_record_without_causes_leads_to_unknown():
    assert verdict([match("bare", 1, 0)]).cause is Cause.UNKNOWN
