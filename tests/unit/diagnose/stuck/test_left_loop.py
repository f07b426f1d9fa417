"""A rank that left the loop, told apart from one that took another branch inside it."""

from scenes import CLOSED, Scene, culprits, job, verdict_of
from unstuck.model.rank import CodeLine
from unstuck.model.verdict import Cause, Confidence

EPOCH, BATCH = "train.py:10", "train.py:12"


def at_a_barrier(loops: tuple[str, ...] | None, size: int = 4, odd: int = 2) -> Scene:
    """One rank is in a barrier while the others all_reduce in the loop over the batches."""
    scene = job(size)
    for rank in range(size):
        if rank != odd:
            scene.enter(rank, loops=(EPOCH, BATCH))
    return scene.enter(odd, op="barrier", sizes=(), loops=loops)


def test_a_rank_after_its_loop_ran_out_of_work() -> None:
    for loops in ((), (EPOCH,)):
        verdict = verdict_of(at_a_barrier(loops))
        assert (verdict.cause, verdict.confidence) == (Cause.UNEVEN_WORK, Confidence.LIKELY)
        assert culprits(verdict) == [2]
        assert verdict.victims == (0, 1, 3)
        assert f"has left the loop at {EPOCH if not loops else BATCH}" in verdict.culprits[0].doing


def test_of_two_the_one_after_the_loop_is_named() -> None:
    assert culprits(verdict_of(at_a_barrier((), 2, 0))) == [0]


def test_another_branch_of_the_same_loop_is_a_mismatch_and_nothing_else() -> None:
    verdict = verdict_of(at_a_barrier((EPOCH, BATCH)))
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])
    assert verdict.alternatives == ()


def test_both_are_said_where_the_loops_are_not_known() -> None:
    verdict = verdict_of(at_a_barrier(None))
    assert verdict.cause is Cause.COLLECTIVE_MISMATCH
    assert [one.cause for one in verdict.alternatives] == [Cause.UNEVEN_WORK]


def test_a_barrier_of_another_group_after_the_loop_is_no_inversion() -> None:
    scene = job(2, {"0": (0, 1), "1": (0, 1)})
    scene.enter(0, "0", loops=(BATCH,), stack_age=0.5)
    verdict = verdict_of(scene.enter(1, "1", op="barrier", sizes=(), loops=(), stack_age=0.5))
    assert (verdict.cause, culprits(verdict)) == (Cause.UNEVEN_WORK, [1])


def test_a_rank_busy_after_all_loops_will_not_come_back() -> None:
    scene = job(3).enter(0, loops=(BATCH,)).enter(1, loops=(BATCH,))
    verdict = verdict_of(scene.sleep(2, loops=()))
    assert (verdict.cause, culprits(verdict)) == (Cause.UNEVEN_WORK, [2])
    busy = verdict_of(scene.change(2, loops=(EPOCH,)))
    assert busy.cause is Cause.BUSY_ELSEWHERE


def left(loops: tuple[str, ...]) -> Scene:
    """Rank 2 destroyed its groups and ended; the others needed it in their next all_reduce."""
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=1.0).fail(rank, "RuntimeError", CLOSED, 0.9)
        scene.change(rank, step=30)
    scene.change(2, left_for=1.0, loops=loops, step=29)
    return scene.end(2, 0, 0.8, "exit")


def test_a_rank_that_ended_after_its_loop_had_less_to_do() -> None:
    verdict = verdict_of(left(()))
    assert (verdict.cause, culprits(verdict)) == (Cause.UNEVEN_WORK, [2])
    assert [one.cause for one in verdict.alternatives] == [Cause.RANK_LEFT_EARLY]
    assert "29 steps done, the others 30" in [item.text for item in verdict.evidence]


def test_a_rank_that_ended_from_within_its_loop_left_early() -> None:
    verdict = verdict_of(left((BATCH,)))
    assert (verdict.cause, culprits(verdict)) == (Cause.RANK_LEFT_EARLY, [2])


def test_a_rank_that_destroyed_its_groups_and_lives_on_has_left_too() -> None:
    scene = left(()).change(2, phase="run").process(2, state="S", exit_code=None, gone_for=None)
    assert culprits(verdict_of(scene)) == [2]


def at(*calls: tuple[str, int]) -> tuple[CodeLine, ...]:
    """A way through the script: functions and lines, outermost first."""
    return tuple(CodeLine("train.py", line, function) for function, line in calls)


IN_THE_LOOP = at(("<module>", 30), ("main", 12), ("step", 5))


def test_a_rank_that_has_not_come_to_the_loop_has_not_left_it() -> None:
    scene = job(3)
    for rank in (0, 1):
        scene.enter(rank, loops=(BATCH,), route=IN_THE_LOOP)
    scene.sleep(2, loops=(), route=at(("<module>", 30), ("main", 9), ("prepare", 40)))
    assert verdict_of(scene).cause is Cause.BUSY_ELSEWHERE
    scene.change(2, route=at(("<module>", 25), ("prepare", 40)))
    assert verdict_of(scene).cause is Cause.BUSY_ELSEWHERE


def test_a_rank_past_the_loop_has_left_it_wherever_its_functions_stand() -> None:
    scene = job(3)
    for rank in (0, 1):
        scene.enter(rank, loops=(BATCH,), route=IN_THE_LOOP)
    scene.sleep(2, loops=(), route=at(("<module>", 30), ("main", 19), ("save", 2)))
    assert verdict_of(scene).cause is Cause.UNEVEN_WORK
    scene.change(2, route=at(("<module>", 31), ("save", 2)))
    assert verdict_of(scene).cause is Cause.UNEVEN_WORK


def test_another_operation_before_the_loop_is_a_mismatch() -> None:
    scene = at_a_barrier(())
    for rank in (0, 1, 3):
        scene.change(rank, route=IN_THE_LOOP)
    assert verdict_of(scene.change(2, route=at(("<module>", 20)))).cause is (
        Cause.COLLECTIVE_MISMATCH
    )
    assert verdict_of(scene.change(2, route=at(("<module>", 40)))).cause is Cause.UNEVEN_WORK


def test_when_most_have_left_the_loop_the_few_that_stay_are_odd() -> None:
    scene = job(4).enter(3, loops=(BATCH,))
    for rank in (0, 1, 2):
        scene.enter(rank, op="barrier", sizes=(), loops=())
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.UNEVEN_WORK, [3])
    assert verdict.victims == (0, 1, 2)
    assert verdict.culprits[0].doing.startswith(f"is still in its loop at {BATCH}")


def test_when_most_are_busy_after_all_loops_the_one_that_stays_is_odd() -> None:
    scene = job(4).enter(3, loops=(BATCH,))
    for rank in (0, 1, 2):
        scene.sleep(rank, loops=())
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.UNEVEN_WORK, [3])


def test_a_rank_that_goes_on_after_most_have_ended_has_more_to_do() -> None:
    scene = job(4)
    for rank in (0, 1, 2):
        scene.end(rank, 0, 1.0, "exit").change(rank, left_for=1.1, loops=(), step=20)
    verdict = verdict_of(scene.enter(3, stalled=0.8, step=21))
    assert (verdict.cause, culprits(verdict)) == (Cause.UNEVEN_WORK, [3])
    assert any("21 steps done, the others 20" in item.text for item in verdict.evidence)


def test_a_rank_that_left_the_loop_by_an_exception_did_not_run_out_of_data() -> None:
    scene = job(3).enter(0, loops=(BATCH,)).enter(1, loops=(BATCH,))
    verdict = verdict_of(scene.sleep(2, loops=(), handling="KeyError: label"))
    assert (verdict.cause, culprits(verdict)) == (Cause.RANK_LEFT_EARLY, [2])
    assert "while handling KeyError: label" in verdict.culprits[0].doing


def test_an_exception_that_all_ranks_handle_says_nothing() -> None:
    scene = job(3)
    for rank in (0, 1):
        scene.enter(rank, loops=(BATCH,), handling="ImportError")
    verdict = verdict_of(scene.sleep(2, loops=(), handling="ImportError"))
    assert (verdict.cause, culprits(verdict)) == (Cause.UNEVEN_WORK, [2])
    assert "handling" not in verdict.culprits[0].doing
