"""Roots apart from cascades, facts that choose among causes, and ranks that said nothing."""

from collections.abc import Iterable

import pytest

from unstuck.diagnose.logfacts import job_facts, match_facts
from unstuck.diagnose.logs import diagnose
from unstuck.diagnose.logwaits import Waits
from unstuck.model.log import (
    LogCause,
    LogFact,
    LogFailure,
    LogLine,
    LogMatch,
    LogPhase,
    LogReading,
    LogRecord,
)
from unstuck.model.rank import CodeLine
from unstuck.model.verdict import Cause, Confidence, Verdict


def cause(name: Cause, *facts: LogFact, reported: int = 0) -> LogCause:
    return LogCause(name, f"decided by {name}", facts, reported)


def record(
    name: str, role: str, category: str, *causes: LogCause, domain: str = "nccl", **more: object
) -> LogRecord:
    return LogRecord(name, role, f"title of {name}", category, domain, causes, **more)  # type: ignore[arg-type]


RECORDS = {
    one.id: one
    for one in (
        record(
            "timeout",
            "either",
            "timeout",
            cause(Cause.UNEVEN_WORK, LogFact.SOME_SILENT, reported=11),
            cause(Cause.COLLECTIVE_MISMATCH, LogFact.OP_DIFFERS, reported=9),
            cause(Cause.STRAGGLER, reported=4),
        ),
        record(
            "busy",
            "either",
            "timeout",
            cause(Cause.BUSY_ELSEWHERE, LogFact.PREPARING),
            refines="timeout",
            facts=(LogFact.PREPARING,),
        ),
        record("oom", "root", "memory", cause(Cause.OUT_OF_MEMORY), domain="cuda"),
        record("killed", "root", "crash", cause(Cause.PROCESS_CRASH), domain="torchrun"),
        record("closed", "cascade", "crash", cause(Cause.PROCESS_CRASH), cause(Cause.STRAGGLER)),
        record("resolve", "either", "network", cause(Cause.NETWORK_MISCONFIGURATION)),
        record(
            "connect",
            "either",
            "rendezvous",
            cause(Cause.NEVER_JOINED),
            cause(Cause.NETWORK_PARTITION),
        ),
        record("full", "root", "storage", cause(Cause.RESOURCE_CONTENTION), domain="linux"),
        record("route", "root", "network", cause(Cause.NETWORK_PARTITION)),
        record("late", "root", "timeout", cause(Cause.BUSY_ELSEWHERE)),
        record(
            "first",
            "root",
            "rendezvous",
            cause(Cause.NEVER_JOINED),
            cause(Cause.PROCESS_CRASH, LogFact.EARLIER_FAILURE),
        ),
        record("exited", "cascade", "exit", cause(Cause.PROCESS_CRASH), domain="torchrun"),
        record("bare", "cascade", "teardown"),
        record("talk", "harmless", "setting"),
    )
}


def match(
    name: str,
    line: int,
    rank: int | None = None,
    time: float | None = None,
    file: str = "log",
    **fields: object,
) -> LogMatch:
    place = LogLine(file, line, f"{name} on {rank}", rank, "", time)
    return LogMatch(name, RECORDS[name].role, place, {k: str(v) for k, v in fields.items()})


def wait(
    rank: int, seq: int = 90, op: str = "ALLREDUCE", size: int = 8, **more: object
) -> LogMatch:
    fields = {"seq": seq, "op": op, "numel_in": size, "numel_out": size, "timeout_ms": 600000}
    return match("timeout", 100 + rank, rank, **{**fields, **more})  # type: ignore[arg-type]


def verdict(matches: Iterable[LogMatch], world_size: int = 4, **more: object) -> Verdict:
    reading = LogReading(tuple(matches), world_size=world_size, distributed=True, **more)  # type: ignore[arg-type]
    found = diagnose(reading, RECORDS)
    assert found is not None
    return found


def test_nothing_serious_gives_no_verdict():
    assert diagnose(LogReading(()), RECORDS) is None
    assert diagnose(LogReading((match("talk", 1),), distributed=True), RECORDS) is None


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
    assert [c.doing for c in found.culprits] == ["was ended by signal 9"]
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


def test_one_weak_sign_does_not_decide_but_the_silent_rank_is_named():
    found = verdict(wait(rank) for rank in (0, 1, 3))
    assert (found.cause, found.confidence) == (Cause.UNKNOWN, Confidence.POSSIBLE)
    assert found.alternatives[0].cause is Cause.UNEVEN_WORK
    assert [(c.rank, c.doing) for c in found.culprits] == [
        (2, "says nothing while ranks 0,1,3 wait")
    ]


def test_nobody_is_named_when_most_ranks_are_silent():
    assert verdict([wait(6)], world_size=8).culprits == ()


def test_a_rank_at_another_operation_is_the_culprit():
    found = verdict([wait(0), wait(1), wait(2, op="BROADCAST"), wait(3)])
    assert found.cause is Cause.COLLECTIVE_MISMATCH
    assert [(c.rank, c.doing) for c in found.culprits] == [(2, "was in BROADCAST")]
    assert found.stuck is not None
    assert (found.stuck.op, found.stuck.waiting, found.stuck.missing) == (
        "ALLREDUCE",
        (0, 1, 3),
        (2,),
    )


def test_a_rank_with_a_lower_number_is_behind():
    found = verdict([wait(0), wait(1, seq=89), wait(2), wait(3)])
    assert [(c.rank, c.doing) for c in found.culprits] == [
        (1, "is behind: at ALLREDUCE number 89, others at 90")
    ]


def test_numbers_of_different_groups_are_not_compared():
    found = verdict([wait(0, seq=90210), wait(1, seq=90210), wait(2, seq=64), wait(3, seq=64)])
    assert found.culprits == ()
    assert found.cause is Cause.UNKNOWN


def test_of_several_waits_of_one_rank_the_oldest_counts():
    waits = [wait(0, seq=92), wait(0, seq=90), wait(0, seq=91), wait(1), wait(3)]
    found = verdict(waits)
    assert [c.rank for c in found.culprits] == [2]


def test_a_tie_names_both_sides():
    found = verdict([wait(0), wait(1, op="BROADCAST")], world_size=2)
    assert [c.rank for c in found.culprits] == [0, 1]


def test_a_refinement_answers_when_its_facts_hold():
    bar = LogPhase(LogFact.PREPARING, LogLine("log", 50, "Map: 3%", 2))
    found = verdict([wait(rank) for rank in (0, 1, 3)], phases=(bar,))
    assert (found.cause, found.confidence) == (Cause.BUSY_ELSEWHERE, Confidence.LIKELY)
    assert found.records == ("busy", "timeout")
    assert [(c.rank, c.doing) for c in found.culprits] == [(2, "was still preparing data")]
    assert found.because == "these lines show: data was still being prepared"


def test_a_preparation_that_was_over_is_no_evidence():
    bar = LogPhase(LogFact.PREPARING, LogLine("log", 5, "Map: 3%", 2))
    step = LogPhase(LogFact.TRAINING, LogLine("log", 50, "step 3 loss 2", 2))
    found = verdict([wait(rank) for rank in (0, 1, 3)], phases=(bar, step))
    assert found.cause is Cause.UNKNOWN


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
    assert "look in the log of rank 2" in found.because


def test_a_record_without_causes_leads_to_unknown():
    assert verdict([match("bare", 1, 0)]).cause is Cause.UNKNOWN


def test_memory_that_ran_out_in_one_process_is_not_a_failure_of_a_job():
    assert diagnose(LogReading((match("oom", 1),)), RECORDS) is None


def test_refused_arguments_are_not_a_failure_of_the_job():
    reading = LogReading((match("closed", 9),), usage_error=True, distributed=True)
    assert diagnose(reading, RECORDS) is None


def test_the_ranks_that_a_message_names_are_the_culprits():
    found = verdict([match("killed", 1, 0, missing_ranks="4, 5")])
    assert [c.rank for c in found.culprits] == [4, 5]


@pytest.mark.parametrize(("lang", "words"), [("en", "says nothing"), ("zh", "没有输出")])
def test_the_verdict_speaks_the_language_asked_for(lang: str, words: str):
    reading = LogReading(tuple(wait(rank) for rank in (0, 1, 3)), world_size=4, distributed=True)
    found = diagnose(reading, RECORDS, lang)
    assert found is not None
    assert words in found.culprits[0].doing


def test_torchs_own_desync_report_names_the_late_ranks():
    text = "To our best knowledge, ranks [2] are the lagging ranks that caused this timeout"
    report = LogMatch("talk", "diagnostic", LogLine("log", 99, text), {"ranks": "2"})
    found = verdict([report, wait(0), wait(1)], world_size=8)
    assert [(c.rank, c.doing) for c in found.culprits] == [(2, "did not come")]


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


def test_the_warning_that_says_why_the_start_failed_wins_over_the_one_that_says_that():
    for order in ([("connect", 1), ("resolve", 2)], [("resolve", 1), ("connect", 2)]):
        found = verdict(match(name, line, 0) for name, line in order)
        assert found.records[0] == "resolve"


def test_a_full_disk_is_a_failure_of_a_job_only_where_there_is_one():
    assert diagnose(LogReading((match("full", 1),)), RECORDS) is None
    assert verdict([match("full", 1, 0)]).cause is Cause.RESOURCE_CONTENTION


def test_the_line_that_says_why_nobody_came_wins_over_the_wait_for_them():
    assert verdict([match("late", 1, 0), match("route", 2, 1)]).cause is Cause.NETWORK_PARTITION
    assert verdict([match("late", 1, 0), match("killed", 2, 1)]).cause is Cause.BUSY_ELSEWHERE


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


@pytest.mark.parametrize(("rank", "before"), [(0, False), (1, True)])
def test_how_the_rank_of_the_root_ended_is_no_earlier_failure(rank: int, before: bool):
    root = match("first", 1, 0)
    found = verdict([root, match("exited", 2, rank, exit_code="1")])
    assert (found.cause is Cause.PROCESS_CRASH) is before
