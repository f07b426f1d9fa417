"""Ranks that die, fail or leave: who was the root, who only followed, who left in order."""

import pytest

from scenes import CLOSED, TIMED_OUT, Scene, culprits, job, silent, user, verdict_of
from unstuck.model.rank import CodeLine, Operation, PointToPoint
from unstuck.model.verdict import Cause, Confidence


def test_an_exception_is_a_crash_with_type_message_and_line() -> None:
    scene = job(4).fail(2, "ValueError", "bad batch", 0.4, user("raise ValueError", 17, "load"))
    for rank in (0, 1, 3):
        scene.fail(rank, "RuntimeError", CLOSED, 0.3)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.PROCESS_CRASH, Confidence.CERTAIN)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1, 3)
    assert verdict.culprits[0].doing == "raised ValueError: bad batch"
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


def test_unknown_end_with_a_counted_oom_kill_is_likely_out_of_memory() -> None:
    scene = job(4).end(2, None, 1.0).process(2, oom_kills=1)
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.OUT_OF_MEMORY, Confidence.LIKELY)
    assert culprits(verdict) == [2]
    assert any("1 out-of-memory kills" in item.text for item in verdict.evidence)


def test_sigkill_without_oom_kill_is_a_crash_that_the_kernel_log_may_explain() -> None:
    verdict = verdict_of(job(4).end(2, -9, 1.0))
    assert (verdict.cause, verdict.confidence) == (Cause.PROCESS_CRASH, Confidence.CERTAIN)
    assert verdict.culprits[0].doing == "was killed by SIGKILL"
    assert [one.cause for one in verdict.alternatives] == [Cause.OUT_OF_MEMORY]


@pytest.mark.parametrize(("code", "name"), [(-11, "SIGSEGV"), (-6, "SIGABRT"), (139, "SIGSEGV")])
def test_other_signals_are_named(code: int, name: str) -> None:
    verdict = verdict_of(job(4).end(1, code, 1.0))
    assert name in verdict.culprits[0].doing


def test_an_abort_is_not_certain_to_be_its_own_fault() -> None:
    assert verdict_of(job(4).end(1, -11, 1.0)).confidence is Confidence.CERTAIN
    assert verdict_of(job(4).end(1, -6, 1.0)).confidence is Confidence.LIKELY


def test_a_crash_of_the_script_itself_is_certain_and_has_its_line() -> None:
    scene = job(4).change(1, crashed_in="python", stack=(user("os.abort()", 14),))
    verdict = verdict_of(scene.end(1, -6, 1.0))
    assert (verdict.cause, verdict.confidence) == (Cause.PROCESS_CRASH, Confidence.CERTAIN)
    assert (verdict.culprits[0].rank, verdict.culprits[0].line) == (1, 14)
    assert verdict.culprits[0].doing == "was killed by SIGABRT in this line"


def aborted(*, backend: str) -> Scene:
    """Rank 1 was aborted by a thread of its backend; of what the others did nothing is known."""
    scene = job(4)
    for rank in range(4):
        scene.progress(rank, "0", backend=backend)
    stack = (user("dist.all_reduce(x)", 16),)
    return scene.change(1, crashed_in="native", stack=stack).end(1, -6, 1.0)


def test_one_that_gloo_aborted_in_a_collective_is_a_victim() -> None:
    verdict = verdict_of(aborted(backend="gloo"))
    assert (verdict.cause, verdict.confidence) == (Cause.COLLECTIVE_MISMATCH, Confidence.POSSIBLE)
    assert (culprits(verdict), verdict.victims) == ([], (0, 1, 2, 3))
    assert "Rank 1 was aborted inside all_reduce" in verdict.summary
    assert Cause.PROCESS_CRASH in {other.cause for other in verdict.alternatives}


def test_one_that_a_watchdog_aborted_waited_for_another() -> None:
    verdict = verdict_of(aborted(backend="nccl").end(1, -6, 2.0))
    assert verdict.confidence is Confidence.POSSIBLE
    assert "only consequences are visible" in verdict.because


def test_a_plain_exit_code_is_told() -> None:
    assert verdict_of(job(4).end(1, 3, 1.0)).culprits[0].doing == "ended with exit code 3"


def test_those_the_launcher_ended_afterwards_only_followed() -> None:
    scene = job(4).end(2, -9, 2.0).end(0, -15, 1.7).end(1, -15, 1.7).end(3, -9, 1.0)
    verdict = verdict_of(scene)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1, 3)


def test_a_rank_that_alone_was_terminated_is_the_root_within_a_second() -> None:
    scene = job(4).end(2, -15, 0.6)
    for rank in (0, 3):
        scene.fail(rank, "RuntimeError", CLOSED, 0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [2])
    assert verdict.culprits[0].doing == "was killed by SIGTERM"


def test_a_rank_terminated_before_its_launcher_ended_the_others_is_the_root() -> None:
    scene = job(4).end(2, -15, 0.6).end(0, None, 0.52).end(1, -15, 0.48).end(3, -15, 0.46)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [2])
    assert verdict.victims == (0, 1, 3)


@pytest.mark.parametrize("others", [(0,), (0, 1, 3)])
def test_ranks_terminated_together_are_not_accused_at_once(others: tuple[int, ...]) -> None:
    scene = job(4).end(2, -15, 0.7)
    for rank in others:
        scene.end(rank, -15, 0.69)
    assert silent(scene)


def test_a_rank_gone_without_a_word_among_terminated_ones_is_not_accused() -> None:
    scene = job(4).end(0, None, 0.7)
    for rank in (1, 2, 3):
        scene.end(rank, -15, 0.68)
    assert silent(scene)


def test_where_other_hosts_may_know_more_terminated_ranks_are_not_accused_at_once() -> None:
    scene = job(8, per_host=4).end(2, -15, 0.7)
    for rank in (0, 1, 3):
        scene.end(rank, -15, 0.6)
    assert silent(scene)


def test_a_rank_gone_without_a_word_is_the_root_though_its_end_was_seen_after_the_errors() -> None:
    scene = job(4).end(1, None, 1.592).end(3, -15, 1.525)
    for rank in (0, 2):
        scene.fail(rank, "RuntimeError", CLOSED, 1.593).end(rank, -15, 1.525, "exception")
        scene.progress(rank, "0", enqueued=41, completed=41)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [1])
    assert verdict.victims == (0, 2, 3)


@pytest.mark.parametrize("code", [-11, None])
def test_a_rank_gone_without_a_word_after_the_crash_was_ended_by_its_launcher(
    code: int | None,
) -> None:
    """Rank 2 crashes; rank 0 sleeps between two collectives when torchrun ends everybody."""
    scene = job(4).end(2, code, 0.411).end(0, None, 0.341)
    scene.progress(2, "0", enqueued=39, completed=39)
    for rank, gone in ((1, 0.337), (3, 0.367)):
        scene.fail(rank, "RuntimeError", CLOSED, 0.435).end(rank, -15, gone, "exception")
        scene.progress(rank, "0", enqueued=41, completed=41)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [2])
    assert verdict.victims == (0, 1, 3)


def _one_is_left_over(gone: float = 1.655, complaint: float = 1.676) -> Scene:
    """A ring of sends: rank 1 is gone, rank 2 misses it, the launcher ends the others."""
    scene = job(4, {}).end(1, None, gone).end(0, -15, 1.609).end(3, -15, 1.615)
    return scene.fail(2, "RuntimeError", CLOSED, complaint).end(2, -15, 1.610, "exception")


def test_who_is_left_over_when_all_others_lived_or_complained_died_first() -> None:
    verdict = verdict_of(_one_is_left_over())
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [1])
    assert verdict.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    "scene",
    [
        _one_is_left_over(gone=1.63),  # gone together with those that were ended
        _one_is_left_over(complaint=1.5),  # about one that was ended
        _one_is_left_over().end(3, None, 1.66),  # two of whom nothing is known
        _one_is_left_over().end(3, 0, 1.615, "exit"),
    ],
)
def test_nobody_is_left_over_where_others_may_have_died_first(scene: Scene) -> None:
    assert culprits(verdict_of(scene)) != [1]


def _one_is_ahead(gone: float = 1.804, last: float = 1.728, per_host: int = 0) -> Scene:
    """Rank 2 is gone before its exit code was seen; then the launcher ends all others."""
    scene = job(4, per_host=per_host).end(2, None, gone).end(1, -15, 1.746)
    return scene.end(3, -15, 1.746).end(0, -15, last)


def test_who_is_gone_clearly_before_its_launcher_ended_all_others_died_first() -> None:
    verdict = verdict_of(_one_is_ahead())
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [2])
    assert verdict.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    "scene",
    [
        _one_is_ahead(gone=1.77),  # within the time in which a launcher ends them together
        _one_is_ahead(last=1.71),  # one of the others was behind by more than half as much
        _one_is_ahead(per_host=2),  # two launchers that were told to end, one a little later
        _one_is_ahead().end(3, None, 1.75),
    ],
)
def test_nobody_is_ahead_where_all_may_have_been_ended_together(scene: Scene) -> None:
    assert not culprits(verdict_of(scene))


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
    assert culprits(verdict_of(scene.end(2, -15, 1.6))) == [2]  # seen a little late
    verdict = verdict_of(scene.end(2, -15, 1.4))
    assert (verdict.cause, verdict.culprits) == (Cause.UNKNOWN, ())
    verdict = verdict_of(scene.end(2, -15, 1.6).process(0, gone_for=1.7))
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


def test_a_rank_terminated_before_all_others_is_named() -> None:
    scene = job(4).end(2, -15, 2.0)
    for rank in (0, 1, 3):
        scene.end(rank, -15, 1.6)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [2])


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


def wrong_size(rank: int, size: int = 4) -> Scene:
    """Rank 1 aborted on what another one sent; all others were read and then ended."""
    scene = job(size)
    for other in range(size):
        if other != 1:
            scene.enter(other, sizes=((6000,),) if other == rank else ((4000,),), stalled=0.2)
            scene.fail(other, "RuntimeError", CLOSED, 0.4, user("dist.all_reduce(x)", 16))
            scene.end(other, -15, 0.3, "exception")
    return scene.end(1, -6, 0.5)


def test_a_rank_that_sent_too_much_is_told_although_the_aborted_one_says_nothing() -> None:
    verdict = verdict_of(wrong_size(2))
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])
    assert verdict.victims == (0, 1, 3)
    assert verdict.culprits[0].line == 16


def test_one_that_had_not_come_to_the_operation_hides_no_wrong_size() -> None:
    scene = wrong_size(2, 5).progress(4, "0", enqueued=40, completed=40, pending=())
    recent = (Operation("0", 40, "all_reduce", ((4000,),), ("Float",), done=True),)
    assert culprits(verdict_of(scene.progress(4, "0", recent=recent))) == [2]


def test_one_that_aborted_on_too_much_ran_the_smaller_of_two_sizes() -> None:
    verdict = verdict_of(wrong_size(2, 3))
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])
    assert verdict.confidence is Confidence.CERTAIN
    unread = job(4).states[3].groups
    verdict = verdict_of(wrong_size(2).change(3, groups=unread))
    assert (verdict.confidence, culprits(verdict)) == (Confidence.LIKELY, [2])


def test_of_two_that_disagree_neither_is_accused_of_the_abort() -> None:
    scene = wrong_size(2, 3)
    pending = (Operation("0", 41, "broadcast", ((4000,),), ("Float",)),)
    verdict = verdict_of(scene.progress(2, "0", pending=pending))
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [1])


def test_an_abort_elsewhere_is_no_mismatch() -> None:
    scene = wrong_size(2).progress(1, "0", enqueued=36, completed=36)
    assert culprits(verdict_of(scene)) == [1]


def completed_before(op: str) -> Scene:
    """The page of the rank that aborted is two operations behind; the others completed #40."""
    scene = wrong_size(2).progress(1, "0", enqueued=39, completed=39)
    done = (Operation("0", 40, op, ((4000,),), ("Float",), done=True),)
    for rank in (0, 2, 3):
        scene.progress(rank, "0", recent=done)
    return scene


def test_one_that_aborted_had_begun_what_the_others_could_not_complete_without_it() -> None:
    verdict = verdict_of(completed_before("all_reduce"))
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])
    # A broadcast ends at its root before the others have come.
    assert culprits(verdict_of(completed_before("broadcast"))) == [1]


def test_crashes_of_two_kinds_at_once_name_each_with_its_cause() -> None:
    scene = job(4).fail(2, "ValueError", "bad batch", 1.0)
    scene.fail(1, "OutOfMemoryError", "CUDA out of memory", 0.95)
    verdict = verdict_of(scene.fail(3, "KeyError", "late", 0.5))
    assert verdict.cause is Cause.PROCESS_CRASH
    assert [(one.rank, one.cause) for one in verdict.culprits] == [
        (1, Cause.OUT_OF_MEMORY),
        (2, None),
    ]
    assert verdict.victims == (0, 3)


def test_abort_at_exit_is_not_laid_to_groups_that_were_destroyed() -> None:
    scene = job(2).end(1, -6, 0.3, "exit")
    assert "destroy_process_group() at its end" in verdict_of(scene).because
    verdict = verdict_of(scene.change(1, left_for=0.4))
    assert "destroyed its process groups, and was killed by SIGABRT" in verdict.culprits[0].doing
    assert "destroy_process_group" not in verdict.because


def test_a_rank_that_is_leaving_is_judged_when_its_exit_code_is_known() -> None:
    scene = leaver(0.5).process(1, state="S", exit_code=None, gone_for=None)
    assert silent(scene.change(1, stalled_for=0.4))
    assert verdict_of(scene.change(1, stalled_for=0.9)).cause is Cause.RANK_LEFT_EARLY
    verdict = verdict_of(scene.end(1, 3, 0.3, "exit"))
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [1])


def test_a_code_given_to_sys_exit_is_told_before_the_process_has_ended() -> None:
    scene = leaver(0.5).process(1, state="S", exit_code=None, gone_for=None)
    scene.change(1, stalled_for=0.4, exit_asked=3)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [1])
    assert verdict.culprits[0].doing == "ended with exit code 3"
    assert verdict.evidence[0].text == "its script called sys.exit(3) 0.4 s ago"
    assert verdict_of(scene.change(1, exit_asked=0)).cause is Cause.RANK_LEFT_EARLY


def test_a_code_that_nobody_is_hurt_by_waits_for_the_end() -> None:
    assert silent(job(3).change(1, phase="exit", exit_asked=3, stalled_for=0.4))


def test_a_zombie_whose_end_was_not_noted_yet_is_not_the_first_to_die() -> None:
    scene = job(4).end(2, -15, 0.7)
    for rank in (1, 3):
        scene.fail(rank, "RuntimeError", CLOSED, 0.6)
    scene.process(0, state="Z").change(0, stalled_for=0.8)
    assert culprits(verdict_of(scene)) == [2]


def dismissed(code: int) -> Scene:
    """Make a job whose ranks have destroyed their groups and are then ended by their launcher."""
    scene = job(3)
    for rank in range(3):
        scene.end(rank, code, 1.0 - rank / 10, "run").change(rank, left_for=3.0)
    return scene


@pytest.mark.parametrize("code", [-9, -15, 1])
def test_workers_that_are_ended_when_all_are_done_did_not_crash(code: int) -> None:
    assert silent(dismissed(code))


def test_workers_that_have_returned_to_their_library_are_done_too() -> None:
    loop = CodeLine("site-packages/ray/_private/worker.py", 980, "main_loop")
    scene = dismissed(1)
    for rank in range(3):
        scene.change(rank, left_for=None, stack=(loop,))
    assert silent(scene)
    assert not silent(scene.change(0, stack=(loop, user("step()", 12))))


@pytest.mark.parametrize(
    "scene",
    [
        dismissed(-11),
        dismissed(-9).process(1, oom_kills=1),
        dismissed(1).change(0, exit_asked=1),
        dismissed(-9).change(2, left_for=None),
        dismissed(1).fail(1, "ValueError", "no such file", 2.0),
    ],
    ids=["segfault", "out of memory", "sys.exit(1)", "one still had groups", "an exception"],
)
def test_worker_that_crashes_after_it_was_done_is_still_told(scene: Scene) -> None:
    assert not silent(scene)
