"""Ranks that die, fail or leave: who was the root, who only followed, who left in order."""

import pytest

from scenes import CLOSED, TIMED_OUT, Scene, culprits, job, silent, user, verdict_of
from unstuck.model.rank import PointToPoint
from unstuck.model.verdict import Cause, Confidence


def test_an_exception_is_a_crash_with_type_message_and_line() -> None:
    scene = job(4).fail(2, "ValueError", "bad batch", 0.4, user("raise ValueError", 17, "load"))
    for rank in (0, 1, 3):
        scene.fail(rank, "RuntimeError", CLOSED, 0.3)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.PROCESS_CRASH, Confidence.CERTAIN)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1, 3)
    assert verdict.culprits[0].doing == "failed with ValueError: bad batch"
    assert (verdict.culprits[0].line, verdict.culprits[0].function) == (17, "load")
    assert [item.role for item in verdict.evidence] == ["root", "cascade", "cascade", "cascade"]


def test_a_death_is_judged_only_when_a_quarter_of_a_second_old() -> None:
    assert silent(job(4).fail(2, "ValueError", "bad batch", 0.2))


def test_the_root_may_be_seen_later_than_its_consequences() -> None:
    scene = job(3).fail(0, "RuntimeError", CLOSED, 0.4).end(2, 3, 0.3)
    assert culprits(verdict_of(scene)) == [2]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB"),
        (
            "RuntimeError",
            "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate "
            "memory: you tried to allocate 400000000000 bytes.",
        ),
        ("MemoryError", ""),
    ],
)
def test_exceptions_about_memory_are_out_of_memory(kind: str, message: str) -> None:
    verdict = verdict_of(job(2).fail(1, kind, message, 1.0))
    assert (verdict.cause, culprits(verdict)) == (Cause.OUT_OF_MEMORY, [1])


def test_sigkill_with_a_counted_oom_kill_is_likely_out_of_memory() -> None:
    scene = job(4).end(2, -9, 1.0).process(2, oom_kills=1)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.OUT_OF_MEMORY, Confidence.LIKELY)


def test_sigkill_without_oom_kill_is_a_crash_that_the_kernel_log_may_explain() -> None:
    verdict = verdict_of(job(4).end(2, -9, 1.0))
    assert (verdict.cause, verdict.confidence) == (Cause.PROCESS_CRASH, Confidence.CERTAIN)
    assert verdict.culprits[0].doing == "was killed by SIGKILL"
    assert [one.cause for one in verdict.alternatives] == [Cause.OUT_OF_MEMORY]


@pytest.mark.parametrize(("code", "name"), [(-11, "SIGSEGV"), (-6, "SIGABRT"), (139, "SIGSEGV")])
def test_other_signals_are_named(code: int, name: str) -> None:
    verdict = verdict_of(job(4).end(1, code, 1.0))
    assert name in verdict.culprits[0].doing


def test_a_plain_exit_code_is_told() -> None:
    assert verdict_of(job(4).end(1, 3, 1.0)).culprits[0].doing == "ended with exit code 3"


def test_those_the_launcher_ended_afterwards_only_followed() -> None:
    scene = job(4).end(2, -9, 2.0).end(0, -15, 1.7).end(1, -15, 1.7).end(3, -9, 1.0)
    verdict = verdict_of(scene)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1, 3)


def test_a_rank_gone_without_a_word_is_the_root_though_its_end_was_seen_after_the_errors() -> None:
    scene = job(4).end(1, None, 1.592).end(3, -15, 1.525)
    for rank in (0, 2):
        scene.fail(rank, "RuntimeError", CLOSED, 1.593).end(rank, -15, 1.525, "exception")
        scene.progress(rank, "0", enqueued=41, completed=41)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [1])
    assert verdict.victims == (0, 2, 3)


def test_two_ranks_killed_at_once_are_both_roots() -> None:
    assert culprits(verdict_of(job(4).end(1, -9, 2.0).end(2, -9, 1.98))) == [1, 2]


def test_the_same_exception_on_all_ranks_names_all() -> None:
    scene = job(3)
    for rank in range(3):
        scene.fail(rank, "KeyError", "'lr'", 1.0 - rank / 4, user("lr = cfg['lr']", 5))
    verdict = verdict_of(scene)
    assert culprits(verdict) == [0, 1, 2]
    assert verdict.victims == ()


def test_death_by_signal_after_the_end_of_the_script_says_so() -> None:
    verdict = verdict_of(job(4).end(1, -6, 1.0, "exit"))
    assert "had finished its work" in verdict.culprits[0].doing
    assert "destroy_process_group" in verdict.because


def test_only_consequences_are_judged_late_and_with_care() -> None:
    assert silent(job(4).fail(0, "RuntimeError", CLOSED, 1.4))
    verdict = verdict_of(job(4).fail(0, "RuntimeError", CLOSED, 1.6))
    assert (verdict.cause, verdict.confidence) == (Cause.UNKNOWN, Confidence.POSSIBLE)
    assert (verdict.culprits, verdict.victims) == ((), (0, 1, 2, 3))
    assert "only consequences" in verdict.because


def test_a_rank_ended_after_connections_broke_is_not_accused_for_being_behind() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank).fail(rank, "RuntimeError", CLOSED, 2.0)
    verdict = verdict_of(scene.end(2, -15, 1.6))
    assert (verdict.cause, verdict.culprits) == (Cause.UNKNOWN, ())


def test_a_living_rank_is_not_accused_of_broken_connections_for_being_behind() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank).fail(rank, "RuntimeError", CLOSED, 2.0)
    verdict = verdict_of(scene.sleep(2))
    assert (verdict.cause, verdict.culprits) == (Cause.UNKNOWN, ())


def test_a_rank_ended_after_the_others_gave_up_is_the_one_they_waited_for() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank).fail(rank, "RuntimeError", TIMED_OUT, 2.0)
    assert culprits(verdict_of(scene.end(2, -15, 1.6))) == [2]


def test_ranks_terminated_in_the_same_moment_are_not_accused() -> None:
    scene = job(4)
    for rank in range(4):
        scene.end(rank, -15, 2.0 - rank / 100)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.culprits) == (Cause.UNKNOWN, ())
    assert "same moment" in verdict.summary


def test_a_rank_terminated_before_all_others_is_named_with_care() -> None:
    scene = job(4).end(2, -15, 2.0)
    for rank in (0, 1, 3):
        scene.end(rank, -15, 1.6)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.PROCESS_CRASH, Confidence.POSSIBLE)
    assert culprits(verdict) == [2]


def test_ranks_whose_waits_all_timed_out_are_accused_of_nothing() -> None:
    scene = job(4)
    for rank in range(4):
        scene.enter(rank).fail(rank, "RuntimeError", TIMED_OUT, 2.0)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.culprits) == (Cause.UNKNOWN, ())


def test_a_stopped_rank_is_the_root_of_timeouts() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank).fail(rank, "RuntimeError", TIMED_OUT, 1.6)
    verdict = verdict_of(scene.stop(2))
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_STOPPED, [2])


def test_a_normal_end_rank_by_rank_never_gives_a_verdict() -> None:
    scene = job(4)
    for rank in range(4):
        scene.end(rank, 0, 1.0 + 3 * rank, "exit")
        assert silent(scene)


def test_a_normal_end_with_unknown_exit_codes_gives_no_verdict() -> None:
    scene = job(4)
    for rank in range(4):
        scene.end(rank, None, 30.0, "exit" if rank % 2 else "run")
        assert silent(scene)


def test_a_rank_still_finishing_after_another_left_in_order_is_fine() -> None:
    scene = job(2).end(0, 0, 5.0, "exit")
    scene.process(1, cpu=0.0, state="S", waits_in="hrtimer_nanosleep")
    assert silent(scene.change(1, stalled_for=20.0))


def leaver(stalled: float) -> Scene:
    scene = job(3).end(1, 0, 1.0, "exit")
    for rank in (0, 2):
        scene.enter(rank, stalled=stalled)
    return scene


def test_a_rank_that_left_while_others_need_it_is_named() -> None:
    verdict = verdict_of(leaver(0.5))
    assert (verdict.cause, culprits(verdict)) == (Cause.RANK_LEFT_EARLY, [1])
    assert verdict.victims == (0, 2)
    assert [one.cause for one in verdict.alternatives] == [Cause.UNEVEN_WORK]


def test_a_rank_that_left_is_not_blamed_for_a_moment_of_waiting() -> None:
    assert silent(leaver(0.1))


def test_others_that_failed_after_a_rank_left_only_followed() -> None:
    scene = job(3).end(1, 0, 1.0, "exit")
    for rank in (0, 2):
        scene.enter(rank, stalled=0.2).fail(rank, "RuntimeError", CLOSED, 0.6)
    verdict = verdict_of(scene.end(2, -6, 0.4, "exception"))
    assert (verdict.cause, culprits(verdict)) == (Cause.RANK_LEFT_EARLY, [1])


def test_a_rank_that_fails_on_its_own_after_another_left_is_the_root() -> None:
    scene = job(3).end(1, 0, 1.0, "exit").fail(0, "ValueError", "bad batch", 0.5)
    scene.enter(0)
    assert culprits(verdict_of(scene)) == [0]


def test_a_rank_gone_without_a_word_is_a_crash_only_if_others_need_it() -> None:
    scene = job(3).end(1, None, 1.0)
    assert silent(scene)
    for rank in (0, 2):
        scene.enter(rank, stalled=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.PROCESS_CRASH, Confidence.LIKELY)
    assert culprits(verdict) == [1]


def test_a_rank_that_left_although_a_message_was_expected_is_named() -> None:
    scene = job(2).end(1, 0, 9.0, "exit")
    scene.message(0, PointToPoint("recv", "0", 1, 1, age=8), call="recv", stalled=8.0)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.RANK_LEFT_EARLY, [1])


def test_an_abort_by_wrong_sizes_is_told_as_mismatch_when_the_recorders_show_it() -> None:
    scene = job(3)
    for rank in range(3):
        scene.enter(rank, sizes=((75_000,),) if rank == 1 else ((100_000,),))
    scene.end(1, -6, 0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [1])
