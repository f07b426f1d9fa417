"""A rank that the freezer of its control group holds is stopped, not busy."""

from scenes import culprits, job, verdict_of
from unstuck.model.verdict import Cause


def test_a_frozen_rank_is_named_as_stopped_and_by_what():
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=2.1)
    scene.process(2, state="F", waits_in="hrtimer_nanosleep", cpu=0.0)
    verdict = verdict_of(scene.change(2, stalled_for=2.2, beat_age=2.2))

    assert verdict.cause is Cause.PROCESS_STOPPED
    assert culprits(verdict) == [2]
    assert verdict.culprits[0].doing == "is frozen by its cgroup"
