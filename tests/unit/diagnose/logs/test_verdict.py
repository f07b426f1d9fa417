"""From matches and failures to a verdict."""

import pytest

from log_scenes import RECORDS, match, verdict, wait
from unstuck.diagnose.logs.verdict import diagnose
from unstuck.model.logs import (
    LogFailure,
    LogLine,
    LogReading,
)
from unstuck.model.rank import CodeLine
from unstuck.model.verdict import Cause, Confidence


def test_nothing_serious_gives_no_verdict():
    assert diagnose(LogReading(()), RECORDS) is None
    assert diagnose(LogReading((match("talk", 1),), distributed=True), RECORDS) is None


def test_an_exception_in_no_record_is_the_root_of_what_follows():
    raised = LogFailure(
        LogLine("log", 5, "[rank2]: ValueError: bad", 2),
        "ValueError",
        CodeLine("/job/data.py", 17, "load", "raise ValueError"),
    )
    found = verdict([match("closed", 9, 0), match("closed", 10, 1)], failures=(raised,))
    assert (found.cause, found.records) == (Cause.PROCESS_CRASH, ())
    (culprit,) = found.culprits
    assert (culprit.rank, culprit.doing, culprit.file, culprit.line) == (
        2,
        "raised ValueError: bad",
        "/job/data.py",
        17,
    )


def test_an_exception_from_hours_before_is_not():
    old = LogFailure(LogLine("log", 5, "ValueError: bad", 2, "", 10.0), "ValueError")
    found = verdict([match("closed", 9000, 0, 9000.0)], failures=(old,))
    assert found.records == ("closed",)


def test_only_consequences_are_said_to_be_only_that():
    found = verdict([match("closed", 1, 0), match("closed", 2, 1)], world_size=3, ranks=(0, 1))
    assert (found.cause, found.confidence) == (Cause.PROCESS_CRASH, Confidence.POSSIBLE)
    assert found.culprits == ()
    assert "look at the log of rank 2" in found.because


@pytest.mark.parametrize(("lang", "words"), [("en", "reports nothing"), ("zh", "没有报告")])
def test_the_verdict_speaks_the_language_asked_for(lang: str, words: str):
    reading = LogReading(tuple(wait(rank) for rank in (0, 1, 3)), world_size=4, distributed=True)
    found = diagnose(reading, RECORDS, lang)
    assert found is not None
    assert words in found.culprits[0].doing


@pytest.mark.parametrize(("rank", "before"), [(0, False), (1, True)])
def test_how_the_rank_of_the_root_ended_is_no_earlier_failure(rank: int, before: bool):
    root = match("first", 1, 0)
    found = verdict([root, match("exited", 2, rank, exit_code="1")])
    assert (found.cause is Cause.PROCESS_CRASH) is before
