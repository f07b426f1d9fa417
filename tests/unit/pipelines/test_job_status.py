"""The job in brief: its state, its pace, and the few ranks that matter."""

import msgspec
import pytest

from scenes import Scene, job, one_sleeps, user, verdict_of
from unstuck.model.rank import Tempo
from unstuck.pipelines import job_status
from unstuck.pipelines.job_status import MOST_LAGGARDS, JobState, OpenIncident


def incident(scene: Scene, slowdown: float = 0.0) -> OpenIncident:
    return OpenIncident(msgspec.structs.replace(verdict_of(scene), slowdown=slowdown))


def starting() -> Scene:
    scene = job(4)
    for rank in range(4):
        scene.change(rank, step=0, groups=(), phase="start")
    return scene


@pytest.mark.parametrize(
    ("scene", "slowdown", "state"),
    [
        (job(4), None, JobState.RUNNING),
        (starting(), None, JobState.STARTING),
        (one_sleeps(), 0.0, JobState.STALLED),
        (one_sleeps(), 2.5, JobState.SLOW),
    ],
)
def test_state(scene: Scene, slowdown: float | None, state: JobState):
    found = () if slowdown is None else (incident(one_sleeps(), slowdown),)
    assert job_status.make(scene.snapshot(), found).state is state
    assert job_status.make(scene.snapshot(), found, ended=True).state is JobState.ENDED


def test_a_job_in_which_nobody_can_look_is_not_one_that_never_started():
    scene = starting()
    for rank in range(4):
        scene.change(rank, unobserved="torch is too old")
    assert job_status.make(scene.snapshot()).state is JobState.RUNNING


def test_pace_is_that_of_the_typical_rank_and_laggards_stand_out():
    scene = job(32)
    for rank in range(32):
        own = 0.3 if rank < 20 else 0.1 if rank != 31 else 0.4
        scene.change(rank, tempo=Tempo(steps=40, step=0.5, own=own, place=user("load()", 9)))
    found = job_status.make(scene.snapshot())
    assert (found.step_seconds, found.own_seconds, found.waiting_seconds) == (0.5, 0.3, 0.2)
    assert [(one.rank, one.place) for one in found.laggards] == [(31, "train.py:9")]


def test_whoever_is_blamed_comes_first_and_the_list_stays_short():
    scene = one_sleeps(40, sleeper=7)
    for rank in range(20, 40):
        scene.change(rank, tempo=Tempo(steps=40, step=0.5, own=0.01 * rank))
    scene.change(0, tempo=Tempo(steps=40, step=0.5, own=0.01))
    found = job_status.make(scene.snapshot(), (incident(scene),)).laggards
    assert len(found) <= MOST_LAGGARDS
    assert (found[0].rank, found[0].blamed, found[0].place) == (7, True, "train.py:31")


def test_nodes_say_whether_they_are_heard():
    scene = job(4, per_host=2).node("host1", silent_for=20.0)
    found = job_status.make(scene.snapshot()).nodes
    assert [(one.host, one.state, one.ranks) for one in found] == [
        ("host0", "alive", 2),
        ("host1", "silent", 2),
    ]


def test_it_survives_the_way_to_a_reader():
    found = job_status.make(one_sleeps().snapshot(), (incident(one_sleeps()),))
    sent = msgspec.json.encode(msgspec.to_builtins(found))
    assert msgspec.json.decode(sent, type=job_status.JobStatus) == found
