"""A limit shorter than the work that the job is known to need."""

from scenes import CLOSED, Scene, culprits, job, verdict_of
from unstuck.model.rank import LongPlace, Pace
from unstuck.model.verdict import Cause

TIMED_OUT = "[gloo/unbound_buffer.cc:78] Timed out waiting 2000ms for recv operation to complete"


def gave_up(longest: float, place: str = "eval.py:9") -> Scene:
    """Three ranks gave up after 2 s; rank 2 came too late."""
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank).fail(rank, "RuntimeError", TIMED_OUT, 2.0)
    places = (LongPlace(place, 3, longest),)
    scene.change(2, pace=Pace(100, 0.1, 0.2, places=places))
    return scene.enter(2).fail(2, "RuntimeError", CLOSED, 1.6)


def test_work_that_took_longer_before_than_the_limit_allows() -> None:
    verdict = verdict_of(gave_up(2.5))
    assert (verdict.cause, culprits(verdict)) == (Cause.TIMEOUT_TOO_SHORT, [2])
    assert verdict.victims == (0, 1, 3)
    assert (verdict.culprits[0].file, verdict.culprits[0].line) == ("eval.py", 9)
    assert "needs up to 2.5 s at eval.py:9, but the timeout is 2 s" in verdict.culprits[0].doing


def test_work_that_was_always_shorter_is_no_reason() -> None:
    assert verdict_of(gave_up(1.5)).cause is not Cause.TIMEOUT_TOO_SHORT


def test_a_rank_that_lives_must_be_at_that_work_now() -> None:
    scene = gave_up(2.5).sleep(2, failure=None, phase="run", groups=job(4).states[2].groups)
    assert verdict_of(scene.change(2, places=("eval.py:9",))).cause is Cause.TIMEOUT_TOO_SHORT
    assert verdict_of(scene.change(2, places=("load.py:3",))).cause is Cause.BUSY_ELSEWHERE
