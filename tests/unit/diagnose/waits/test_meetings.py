"""Ranks that wait in monitored_barrier, which no recorder shows."""

from scenes import Scene, culprits, inside, job, silent, user, verdict_of
from unstuck.diagnose.diagnose import diagnose
from unstuck.model.requests import EvidenceKind
from unstuck.model.verdict import Cause

PARTS = {"0": (0, 1, 2, 3), "1": (0, 1), "2": (2, 3)}


def wait(scene: Scene, *ranks: int, stalled: float = 10.0) -> Scene:
    for rank in ranks:
        scene.process(rank, state="S", waits_in="futex_do_wait", cpu=0.0)
        stack = inside("monitored_barrier")
        scene.change(rank, stack=stack, stalled_for=stalled, stack_age=0.5)
    return scene


def test_the_rank_that_does_not_come_to_the_barrier_is_named() -> None:
    verdict = verdict_of(wait(job(4), 0, 1, 3).sleep(2))
    assert (verdict.cause, culprits(verdict)) == (Cause.BUSY_ELSEWHERE, [2])
    assert verdict.victims == (0, 1, 3)
    assert verdict.chain == ("ranks 0,1,3 wait in monitored_barrier for rank 2",)
    assert "has not called monitored_barrier" in verdict.because


def test_a_stopped_rank_is_named() -> None:
    verdict = verdict_of(wait(job(4), 1, 2, 3).stop(0))
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_STOPPED, [0])


def test_a_barrier_may_take_its_time() -> None:
    assert silent(wait(job(4), 0, 1, 3, stalled=2.0).sleep(2, 2.5))


def test_a_barrier_that_all_have_reached_accuses_nobody() -> None:
    assert silent(wait(job(4), 0, 1, 2, 3))


def test_a_rank_that_moves_is_not_accused() -> None:
    assert silent(wait(job(4), 0, 1, 3).sleep(2, 0.2))


def test_only_members_of_every_group_that_may_be_meant_are_accused() -> None:
    scene = wait(job(4, PARTS), 0).sleep(1).sleep(2)
    assert culprits(verdict_of(scene)) == [1]
    assert silent(wait(job(4, PARTS), 0, 1).sleep(2, 0.1).sleep(3, 0.1))


def test_stacks_are_asked_for_while_nothing_is_in_flight() -> None:
    scene = wait(job(4), 0, 1, 3, stalled=1.5).sleep(2, 1.6, stack_age=None)
    (request,) = diagnose(scene.snapshot()).requests
    assert (request.kind, request.ranks) == (EvidenceKind.STACK, (2,))


def test_one_in_a_collective_while_the_others_are_in_the_barrier_is_odd() -> None:
    verdict = verdict_of(wait(job(4), 0, 1, 3).enter(2))
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])
    assert verdict.victims == (0, 1, 3)


def test_one_alone_in_the_barrier_is_odd() -> None:
    scene = wait(job(4), 2)
    for rank in (0, 1, 3):
        scene.enter(rank)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])


def test_a_rank_that_all_wait_for_is_named_before_any_mismatch() -> None:
    scene = wait(job(4, PARTS), 0).sleep(1)
    for rank in (2, 3):
        scene.enter(rank)
        scene.progress(0, "0", enqueued=41, completed=41)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.BUSY_ELSEWHERE, [1])


def test_the_users_function_of_that_name_is_no_barrier() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        line = user("queue.get()", 9, "monitored_barrier")
        scene.change(rank, stack=(line,), stalled_for=10.0, stack_age=0.5)
    assert silent(scene.sleep(2))
