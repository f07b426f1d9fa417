"""What people ask of the watchers while the job runs is obeyed, and replays."""

import msgspec
from msgspec.structs import replace

from scenes import Scene, job, one_sleeps
from unstuck.diagnose.diagnose import diagnose
from unstuck.model.controls import Controls
from unstuck.model.rank import LongPlace, Pace
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause

PAUSED = Controls(paused_left=10.0)


def under(scene: Scene, controls: Controls) -> Snapshot:
    return replace(scene.snapshot(), controls=controls)


def asleep(seconds: float) -> Scene:
    """Rank 2 sleeps, and the others wait for it."""
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=seconds)
    return scene.sleep(2, seconds)


def test_a_stall_is_not_told_while_paused_and_nothing_is_looked_at() -> None:
    assert diagnose(under(one_sleeps(), Controls())).verdict is not None
    found = diagnose(under(one_sleeps(), PAUSED))
    assert (found.verdict, found.requests) == (None, ())


def test_nor_is_a_rank_that_a_debugger_stopped() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank)
    scene.stop(2)
    assert diagnose(under(scene, Controls())).verdict is not None
    assert diagnose(under(scene, PAUSED)).verdict is None


def test_a_death_is_told_all_the_same() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank)
    verdict = diagnose(under(scene.end(2, -9, 5.0), PAUSED)).verdict
    assert verdict is not None
    assert [one.rank for one in verdict.culprits] == [2]


def test_so_is_a_lost_node() -> None:
    scene = job(4, per_host=2)
    for rank in (0, 1):
        scene.enter(rank)
    scene.node("host1", silent_for=9.0)
    told = diagnose(under(scene, Controls())).verdict
    verdict = diagnose(under(scene, PAUSED)).verdict
    assert told is not None
    assert told.cause in (Cause.NODE_FAILURE, Cause.NETWORK_PARTITION)
    assert verdict == told


def test_after_a_pause_evidence_is_asked_for_before_anything_is_said() -> None:
    scene = asleep(60)
    for rank in range(4):
        scene.change(rank, recorder_age=None, stack_age=None)
    assert diagnose(under(scene, Controls())).verdict is not None, "it never came"
    fresh = diagnose(under(scene, Controls(resumed_for=0.5)))
    assert fresh.verdict is None
    assert fresh.requests
    assert diagnose(under(scene, Controls(resumed_for=2.5))).verdict is not None


def test_a_longer_patience_waits_longer() -> None:
    assert diagnose(under(asleep(11), Controls())).verdict is not None
    assert diagnose(under(asleep(11), Controls(patience=60.0))).verdict is None
    assert diagnose(under(asleep(62), Controls(patience=60.0))).verdict is not None


def test_a_shorter_one_holds_also_where_a_longer_was_learned() -> None:
    scene = asleep(11).change(0, pace=Pace(100, 1.0, 9.0, places=(LongPlace("train.py:31", 2, 9),)))
    scene.change(2, places=("train.py:31",))
    assert diagnose(under(scene, Controls())).verdict is None
    assert diagnose(under(scene, Controls(patience=5.0))).verdict is not None


def test_a_section_gets_the_time_that_was_asked_for() -> None:
    scene = asleep(11).change(2, sections=("save",), section_left=-2.0)
    assert diagnose(under(scene, Controls())).verdict is not None
    assert diagnose(under(scene, Controls(sections={"save": 60.0}))).verdict is None
    assert diagnose(under(scene, Controls(sections={"load": 60.0}))).verdict is not None

    patient = asleep(11).change(2, sections=("save",), section_left=500.0)
    assert diagnose(under(patient, Controls())).verdict is None
    assert diagnose(under(patient, Controls(sections={"save": 5.0}))).verdict is not None


def test_whoever_has_not_joined_gets_the_longer_patience_too() -> None:
    scene = job(2, {})
    for rank in (0, 1):
        scene.change(rank, phase="init", stalled_for=70.0, in_flight=False, stack=())
    assert diagnose(under(scene, Controls())).verdict is not None
    assert diagnose(under(scene, Controls(patience=300.0))).verdict is None


def test_a_stored_snapshot_keeps_them_and_an_old_one_has_none() -> None:
    snapshot = under(one_sleeps(), Controls(5.0, None, 60.0, {"save": 600.0}))
    again = msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot)
    assert again.controls == snapshot.controls
    plain = msgspec.json.encode(one_sleeps().snapshot())
    assert b"controls" not in plain
    assert msgspec.json.decode(plain, type=Snapshot).controls == Controls()
