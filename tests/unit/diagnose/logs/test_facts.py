"""Facts that separate the causes of one message."""

import pytest

from log_scenes import verdict, wait
from unstuck.diagnose.logs.facts import job_facts, match_facts
from unstuck.diagnose.logs.positions import Waits
from unstuck.model.logs import (
    LogFact,
    LogLine,
    LogMatch,
    LogPhase,
    LogReading,
)
from unstuck.model.verdict import Cause


def test_a_preparation_that_was_over_is_no_evidence():
    bar = LogPhase(LogFact.PREPARING, LogLine("log", 5, "Map: 3%", 2))
    step = LogPhase(LogFact.TRAINING, LogLine("log", 50, "step 3 loss 2", 2))
    found = verdict([wait(rank) for rank in (0, 1, 3)], phases=(bar, step))
    assert found.cause is Cause.UNKNOWN


@pytest.mark.parametrize(
    ("world_size", "phase", "silent"),
    [(0, LogFact.AT_END, True), (1, LogFact.AT_END, False), (0, LogFact.TRAINING, False)],
)
def test_one_rank_that_complains_at_the_end_waits_for_others(
    world_size: int, phase: LogFact, silent: bool
):
    before = LogPhase(phase, LogLine("log", 5, "what went on before", 0))
    reading = LogReading((wait(0),), (before,), distributed=True, world_size=world_size)
    assert (LogFact.SOME_SILENT in job_facts(reading, Waits(reading))) is silent


@pytest.mark.parametrize(
    ("text", "killed"),
    [
        ("[launch.py:325:sigkill_handler] exits with return code = -9", True),
        ("  exitcode  : -9 (pid: 16100)", True),
        ("[launch.py:325:sigkill_handler] exits with return code = -6", False),
    ],
)
def test_a_launchers_code_says_that_a_process_was_killed(text: str, killed: bool):
    ended = LogMatch("killed", "root", LogLine("log", 1, text), {})
    reading = LogReading((ended,), distributed=True)
    assert (LogFact.KILLED in job_facts(reading, Waits(reading))) is killed


@pytest.mark.parametrize(("limit", "short"), [(30_000, True), (60_000, True), (600_000, False)])
def test_a_limit_of_a_minute_or_less_is_a_fact_of_its_own(limit: int, short: bool):
    assert (LogFact.SHORT_LIMIT in match_facts([wait(0, timeout_ms=limit)])) is short


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("/default_pg/0//cpu//0/2", True),
        ("default_pg/0/0", True),
        ("/default_pg/0//54//cpu//0/2", False),
        ("/broadcast_from/0/75465", False),
    ],
)
def test_a_key_says_whether_the_first_group_was_awaited(key: str, default: bool):
    line = LogLine("log", 1, f"wait timeout after 5000ms, keys: {key}", 0)
    found = match_facts([LogMatch("timeout", "root", line, {})])
    assert (LogFact.DEFAULT_GROUP in found) is default
