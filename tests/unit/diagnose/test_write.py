"""Findings become one verdict: the weightiest cause leads, and nothing is said twice."""

from msgspec.structs import replace

from scenes import job
from unstuck.diagnose.finding import Finding, blame
from unstuck.diagnose.write import write_verdict
from unstuck.model.doing import Asleep, Contact, Doing, Killed, Unreachable
from unstuck.model.verdict import Cause, Confidence, StuckOperation, Verdict

SLEEPS = Finding(
    cause=Cause.BUSY_ELSEWHERE,
    confidence=Confidence.LIKELY,
    because="it sleeps",
    culprits=(
        blame(2, "host0", Asleep(), seconds=11.0, file="train.py", line=31, function="load"),
    ),
    victims=(0, 1, 3),
    seconds=10.0,
    stuck=StuckOperation("all_reduce", 41, "0", 4),
)
KILLED = Finding(
    cause=Cause.PROCESS_CRASH,
    confidence=Confidence.CERTAIN,
    because="it was killed",
    culprits=(blame(3, "host0", Killed("SIGKILL"), seconds=1.0),),
    victims=(0,),
)


def write(*findings: Finding) -> Verdict:
    return write_verdict(job(4).snapshot(), list(findings))


def test_the_summary_says_who_what_where_and_who_waits() -> None:
    assert write(SLEEPS).summary == (
        "Rank 2 is asleep at train.py:31 (load), for 11 s; "
        "ranks 0,1,3 wait in all_reduce #41 of group 0 (4 ranks)."
    )


def test_what_is_over_was_some_time_ago() -> None:
    assert write(KILLED).summary == "Rank 3 was killed by SIGKILL, 1 s ago; rank 0 is affected."


def test_ranks_that_do_the_same_are_told_together() -> None:
    lost = Unreachable("host1", Contact.SILENT)
    culprits = tuple(blame(rank, "host1", lost, seconds=9.0) for rank in (4, 5, 6, 7))
    found = replace(KILLED, cause=Cause.NODE_FAILURE, culprits=culprits, victims=())
    assert write(found).summary == "Ranks 4-7: each is on host1, which has gone silent, for 9 s."


def test_of_many_different_culprits_the_first_three_are_named() -> None:
    different = [Asleep(section=name) for name in "abcde"]
    culprits = tuple(blame(rank, "", doing) for rank, doing in enumerate(different))
    text = write(replace(SLEEPS, culprits=culprits, victims=(), stuck=None)).summary
    assert text.endswith("rank 2 is asleep in section c, and 2 more.")


def test_another_fault_is_named_beside_the_first_with_its_own_cause() -> None:
    verdict = write(KILLED, SLEEPS)
    assert (verdict.cause, verdict.victims) == (Cause.BUSY_ELSEWHERE, (0, 1))
    assert [(one.rank, one.cause) for one in verdict.culprits] == [
        (2, None),
        (3, Cause.PROCESS_CRASH),
    ]
    assert " Also: Rank 3 was killed by SIGKILL" in verdict.summary


def test_findings_of_one_cause_are_merged_and_only_as_sure_as_the_least() -> None:
    doing: Doing = Asleep(section="load")
    other = replace(
        SLEEPS,
        culprits=(blame(1, "host0", Asleep(section="load")),),
        victims=(0,),
        confidence=Confidence.POSSIBLE,
    )
    verdict = write(SLEEPS, other)
    assert [one.activity for one in verdict.culprits] == [doing, Asleep()]
    assert (verdict.confidence, verdict.victims) == (Confidence.POSSIBLE, (0, 3))
