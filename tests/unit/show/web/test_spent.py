"""Where the time goes, from what the page has seen."""

import msgspec

from scenes import NOW, Scene, job, one_sleeps, verdict_of
from unstuck.explain.view.job_view import JobView, view_job
from unstuck.model.rank import Tempo
from unstuck.model.verdict import Verdict
from unstuck.show.web.spent import Spent


def at(second: float, scene: Scene, verdict: Verdict | None = None, step: int = 0) -> JobView:
    snapshot = msgspec.structs.replace(scene.snapshot(), taken_at=NOW + second)
    return msgspec.structs.replace(view_job(snapshot, verdict), step=step)


def test_steps_a_second_are_counted_over_the_last_seconds():
    spent = Spent()
    for second in range(20):
        spent.note(at(second, job(), step=second * 5))

    assert spent.points[-1].speed == 5.0


def test_time_is_divided_into_work_waiting_and_stalls():
    spent, scene = Spent(), job()
    for rank in range(4):
        scene.change(rank, tempo=Tempo(steps=20, step=0.4, own=0.3))
    spent.note(at(0, scene))
    spent.note(at(4, scene))
    stalled = one_sleeps()
    spent.note(at(6, stalled, verdict_of(stalled)))

    rounded = {what: round(seconds, 3) for what, seconds in spent.seconds.items()}
    assert rounded == {"work": 3.0, "waiting for others": 1.0, "stalled": 2.0}


def test_a_gap_was_not_watched_and_a_new_attempt_begins_anew():
    spent = Spent()
    spent.note(at(0, job()))
    spent.note(at(3600, job()))

    assert spent.seconds == {}
    spent.note(msgspec.structs.replace(at(3601, job()), attempt=1))
    assert len(spent.points) == 1
