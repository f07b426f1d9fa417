"""Waits in the job's store: groups that only some make, and a store that is gone."""

from scenes import C10D, Scene, culprits, job, silent, user, verdict_of
from unstuck.model.rank import CodeLine
from unstuck.model.verdict import Cause, Confidence

MAKING = (
    CodeLine(C10D, 2100, "_new_process_group_helper"),
    CodeLine(C10D, 5400, "_new_group_with_tag"),
    CodeLine(C10D, 5300, "new_group"),
    user("part = dist.new_group([0, 1])", 12),
)
GONE = "Failed to recv, got 0 bytes. Did the remote server shutdown or crash?"


def making(scene: Scene, *ranks: int, stalled: float = 10.0) -> Scene:
    for rank in ranks:
        scene.process(rank, state="S", waits_in="poll_schedule_timeout", cpu=0.0)
        scene.change(rank, stack=MAKING, stalled_for=stalled, stack_age=0.5, store="rank 0")
    return scene


def test_a_rank_asleep_while_the_others_make_a_group_is_named() -> None:
    verdict = verdict_of(making(job(4), 0, 1, 3).sleep(2))
    assert (verdict.cause, culprits(verdict)) == (Cause.BUSY_ELSEWHERE, [2])
    assert verdict.victims == (0, 1, 3)
    assert verdict.chain == ("ranks 0,1,3 wait in new_group for rank 2",)


def test_making_a_group_may_take_its_time() -> None:
    assert silent(making(job(4), 0, 1, 3, stalled=2.0).sleep(2, 2.5))


def test_one_that_makes_a_group_alone_is_odd() -> None:
    scene = making(job(4), 2)
    for rank in (0, 1, 3):
        scene.enter(rank)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])
    assert verdict.victims == (0, 1, 3)


def test_one_that_does_not_make_the_group_is_odd() -> None:
    verdict = verdict_of(making(job(4), 0, 1, 3).enter(2))
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])


def test_a_stopped_rank_is_named_first() -> None:
    verdict = verdict_of(making(job(4), 1, 2, 3).stop(0))
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_STOPPED, [0])


def test_the_host_of_the_store_that_ended_is_named() -> None:
    verdict = verdict_of(making(job(4), 1, 2, 3).end(0, 0, 9.0, "exit"))
    assert (verdict.cause, verdict.confidence) == (Cause.STORE_LOST, Confidence.CERTAIN)
    assert culprits(verdict) == [0]


def failed(store: str) -> Scene:
    scene = job(3)
    for rank in (1, 2):
        scene.fail(rank, "DistNetworkError", GONE, 2.0).change(rank, store=store)
    return scene


def test_failures_in_the_store_name_its_host_that_left() -> None:
    verdict = verdict_of(failed("rank 0").end(0, 0, 5.0, "exit"))
    assert (verdict.cause, culprits(verdict)) == (Cause.STORE_LOST, [0])
    assert verdict.victims == (1, 2)


def test_host_of_the_store_is_named_also_if_nothing_is_known_of_its_end() -> None:
    verdict = verdict_of(failed("rank 0").end(0, None, 2.2))
    assert (verdict.cause, culprits(verdict)) == (Cause.STORE_LOST, [0])
    assert [other.cause for other in verdict.alternatives] == [Cause.PROCESS_CRASH]


def test_failures_in_the_store_of_the_launcher_accuse_no_rank() -> None:
    verdict = verdict_of(failed("launcher"))
    assert (verdict.cause, verdict.culprits) == (Cause.STORE_LOST, ())
    assert "launcher" in verdict.summary


def test_a_host_of_the_store_that_crashed_is_a_crash() -> None:
    scene = failed("rank 0").end(0, -11, 2.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [0])
