"""The state of a job in a few lines that a tired reader understands."""

from scenes import one_sleeps, verdict_of
from unstuck.explain.advice.advice import advise
from unstuck.pipelines import job_status
from unstuck.pipelines.job_status import JobState, JobStatus, Laggard, NodeStatus, OpenIncident
from unstuck.show import status_text


def test_a_stalled_job_says_who_where_and_what_to_do():
    scene = one_sleeps()
    verdict = advise(verdict_of(scene))
    found = job_status.make(scene.snapshot(), (OpenIncident(verdict, "incident-1"),))
    text = "\n".join(status_text.lines(found))
    assert f"state     stalled for 10 s: {verdict.cause}" in text
    assert "ranks     4: 3 collective, 1 blocked" in text
    assert "at        train.py:31 time.sleep(3600)" in text
    assert f"do        {verdict.do[0]}" in text
    assert "incident-1" in text


def test_a_healthy_job_shows_its_pace_and_whoever_lags():
    found = JobStatus(
        state=JobState.RUNNING,
        step=120,
        step_seconds=0.5,
        waiting_seconds=0.1,
        ranks={"running": 3},
        world_size=4,
        attempt=1,
        nodes=(NodeStatus("a/1", "a", "alive", 3), NodeStatus("b/1", "b", "silent", 1)),
        laggards=(Laggard(3, "b", "running", place="/x/train.py:9", own_seconds=0.4),),
    )
    lines = status_text.lines(found)
    assert "state     running" in lines
    assert "ranks     3 of 4: 3 running" in lines
    assert "nodes     2: b is silent" in lines
    assert "progress  step 120; 500 ms a step, 100 ms of it waiting; attempt 2" in lines
    assert "slowest   rank 3 (400 ms of its own a step, train.py:9)" in lines


def test_what_came_from_outside_cannot_move_the_cursor():
    found = JobStatus(state=JobState.RUNNING, command=("sh", "-c", "\x1b[2J\nx"))
    assert all("\x1b" not in line and "\n" not in line for line in status_text.lines(found))


def test_states_that_are_not_about_ranks():
    assert status_text.headline(JobStatus(state=JobState.ENDED, incidents=2)) == (
        "ended, 2 incidents stored"
    )
    assert "does not answer" in status_text.headline(JobStatus(state=JobState.UNWATCHED))
    paused = JobStatus(state=JobState.RUNNING, paused_seconds=60)
    assert status_text.headline(paused) == "running (stalls are not judged for another 60 s)"
