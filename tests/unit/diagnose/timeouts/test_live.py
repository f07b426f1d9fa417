"""The timeouts that the ranks of a running job really have."""

from msgspec.structs import replace

from scenes import Scene, job
from unstuck.diagnose.timeouts import live
from unstuck.model.controls import Controls
from unstuck.model.rank import LongPlace, Pace, RankSettings
from unstuck.model.timeouts import Knob, Layer, Origin

MESH = {"0": (0, 1, 2, 3), "1": (0, 1), "2": (2, 3), "3": (0,)}


def meshed() -> Scene:
    scene = job(4, MESH)
    for rank in range(4):
        scene.progress(rank, "0", timeout=77.0, description="default_pg")
        for name in ("1", "2", "3"):
            scene.progress(rank, name, timeout=1800.0, description="mesh_dp")
        scene.change(rank, settings=RankSettings(77.0, {"NCCL_TIMEOUT": "5400"}))
    return scene


def of_layer(scene: Scene, layer: Layer) -> list[Knob]:
    return [knob for knob in live.read(scene.snapshot()).knobs if knob.layer is layer]


def test_groups_of_one_name_are_one_line_and_a_group_of_one_rank_is_none() -> None:
    default, mesh = of_layer(meshed(), Layer.GROUP)
    assert (default.name, default.seconds) == ("default process group", 77.0)
    assert (default.about, default.origin) == ("ranks 0-3", Origin.SCRIPT)
    assert (mesh.name, mesh.seconds, mesh.origin) == ("mesh_dp", 1800.0, Origin.DEFAULT)
    assert mesh.about == "2 groups of 2 ranks"
    assert default.ranks == mesh.ranks == ()


def test_ranks_that_disagree_are_told_apart() -> None:
    scene = meshed().progress(3, "0", timeout=60.0)
    found = [k for k in of_layer(scene, Layer.GROUP) if k.name == "default process group"]
    assert [(k.seconds, k.ranks) for k in found] == [(77.0, (0, 1, 2)), (60.0, (3,))]


def test_a_variable_that_only_some_ranks_have_names_them() -> None:
    scene = meshed().change(2, settings=RankSettings(77.0, {}))
    (knob,) = of_layer(scene, Layer.WATCHDOG)
    assert (knob.name, knob.value, knob.ranks) == ("NCCL_TIMEOUT", "5400", (0, 1, 3))


def test_what_took_longest_so_far_is_kept() -> None:
    place = LongPlace("train.py:40", 3, 95.0)
    scene = meshed().change(1, pace=Pace(100, 0.1, 0.2, waited=96.0, places=(place,)))
    found = live.read(scene.snapshot())
    assert (found.waited, found.longest, found.longest_at) == (96.0, 95.0, "train.py:40")


def test_the_store_and_the_patience_have_their_lines() -> None:
    assert [k.seconds for k in of_layer(meshed(), Layer.STORE)] == [77.0]
    (knob,) = of_layer(meshed(), Layer.UNSTUCK)
    assert (knob.seconds, knob.origin) == (3.0, Origin.UNSTUCK)


def test_a_patience_that_was_asked_for_says_so() -> None:
    snapshot = replace(meshed().snapshot(), controls=Controls(patience=600.0))
    (knob,) = [k for k in live.read(snapshot).knobs if k.layer is Layer.UNSTUCK]
    assert (knob.seconds, knob.origin, knob.where) == (600.0, Origin.COMMAND, "unstuck ctl set")


def test_before_any_group_was_made_that_is_said() -> None:
    found = live.read(job(2, {}).snapshot())
    assert found.unseen == ("the process groups: no rank has made any yet",)
