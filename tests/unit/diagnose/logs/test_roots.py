"""Which line is the failure itself, and which are its consequences."""

from log_scenes import RECORDS, match, verdict, wait
from unstuck.diagnose.logs.verdict import diagnose
from unstuck.model.logs import (
    LogFact,
    LogLine,
    LogPhase,
    LogReading,
)
from unstuck.model.verdict import Cause


def test_an_earlier_root_wins_over_the_timeouts_it_caused():
    found = verdict([match("oom", 3, 1, 100.0), *(wait(r, time=700.0) for r in (0, 2, 3))])
    assert (found.cause, found.victims) == (Cause.OUT_OF_MEMORY, (0, 2, 3))
    assert [culprit.rank for culprit in found.culprits] == [1]
    assert found.evidence[0].role == "root"


def test_across_files_time_decides_and_not_the_order_of_names():
    early = match("oom", 900, 1, 100.0, file="z.log")
    late = wait(0, file="a.log", time=700.0)
    assert verdict([late, early]).cause is Cause.OUT_OF_MEMORY


def test_the_end_of_a_process_after_a_timeout_is_its_consequence():
    waits = [wait(rank) for rank in (0, 1, 3)]
    found = verdict([*waits, match("killed", 120, 0, exit_code="-9")])
    assert found.records[0] == "timeout"


def test_a_root_that_comes_with_a_peers_report_wins_whoever_is_first():
    found = verdict([match("closed", 1, 0), match("killed", 2, 2, signal="9")])
    assert found.cause is Cause.PROCESS_CRASH
    assert [c.doing for c in found.culprits] == ["was killed by SIGKILL"]
    assert found.victims == (0,)


def test_a_warning_that_the_job_survived_is_not_the_failure():
    late = [wait(rank, time=9000.0) for rank in (0, 1, 3)]
    found = verdict([match("resolve", 1, 0, 10.0), *late])
    assert found.records == ("timeout",)
    assert verdict([match("resolve", 1, 0, 10.0)]).cause is Cause.NETWORK_MISCONFIGURATION


def test_a_warning_after_which_training_went_on_is_no_failure_at_all():
    step = LogPhase(LogFact.TRAINING, LogLine("log", 50, "step 3 loss 2", 0))
    warned = LogReading((match("resolve", 1, 0),), phases=(step,), distributed=True)
    assert diagnose(warned, RECORDS) is None


def test_the_warning_that_says_why_the_start_failed_wins_over_the_one_that_says_that():
    for order in ([("connect", 1), ("resolve", 2)], [("resolve", 1), ("connect", 2)]):
        found = verdict(match(name, line, 0) for name, line in order)
        assert found.records[0] == "resolve"


def test_the_line_that_says_why_nobody_came_wins_over_the_wait_for_them():
    assert verdict([match("late", 1, 0), match("route", 2, 1)]).cause is Cause.NETWORK_PARTITION
    assert verdict([match("late", 1, 0), match("killed", 2, 1)]).cause is Cause.BUSY_ELSEWHERE
