"""The one that should end first must end first."""

import pytest

from unstuck.diagnose.timeouts import conflicts, judge
from unstuck.model.timeouts import JobSettings, Knob, KnobNote, Layer, NoteKind, Origin

DEFAULT = "default process group"


def group(seconds: float, name: str = DEFAULT, **fields: object) -> Knob:
    told: dict[str, object] = {"origin": Origin.SCRIPT, "backend": "gloo", **fields}
    return Knob(name, Layer.GROUP, seconds, **told)  # type: ignore[arg-type]


def fallen(seconds: float = 1800.0, name: str = "mesh_dp", backend: str = "gloo") -> Knob:
    return group(seconds, name, origin=Origin.DEFAULT, backend=backend)


def section(seconds: float) -> Knob:
    return Knob("section 'save'", Layer.SECTION, seconds, origin=Origin.SCRIPT)


def limit(seconds: float) -> Knob:
    return Knob("Slurm job 7", Layer.SCHEDULER, seconds, origin=Origin.SCHEDULER)


def variable(name: str, value: str, seconds: float | None = None) -> Knob:
    return Knob(name, Layer.WATCHDOG, seconds, value, Origin.ENVIRONMENT)


def found(*knobs: Knob, **fields: object) -> list[KnobNote]:
    return list(conflicts.find(JobSettings("job", knobs, **fields)))  # type: ignore[arg-type]


def test_what_fits_is_left_in_peace() -> None:
    assert found(section(60), group(600), group(600, "tp"), limit(7200), waited=100.0) == []


def test_a_group_that_fell_back_to_the_default_is_named() -> None:
    (note,) = found(group(77), fallen(), fallen())
    assert note.knobs == ("mesh_dp",)
    assert "default of 30 min" in note.text
    assert "77 s of init_process_group do not reach it" in note.text
    (note,) = found(group(77), fallen(), fallen(name="mesh_tp"))
    assert note.text.startswith("fall back")


@pytest.mark.parametrize(
    "knobs",
    [
        (fallen(name=DEFAULT), fallen()),
        (group(77), group(1800, "asked for so")),
        (group(77), fallen(600.0)),
    ],
    ids=["nothing was asked for", "the same was asked for", "not its backend's default"],
)
def test_one_that_did_not_is_not(knobs: tuple[Knob, ...]) -> None:
    assert found(*knobs) == []


def test_nccl_has_another_default() -> None:
    (note,) = found(group(77, backend="nccl"), fallen(600.0, backend="nccl"))
    assert "default of 10 min" in note.text


def test_members_with_different_timeouts() -> None:
    (note,) = found(group(77, ranks=(0, 1)), group(60, ranks=(2,)))
    assert "ranks 0,1 77 s, rank 2 60 s" in note.text


def test_a_timeout_that_was_nearly_reached_already() -> None:
    (note,) = found(group(600), waited=350.0)
    assert "in flight for 5 min 50 s of the 10 min" in note.text
    assert found(group(600), waited=250.0) == []


def test_work_that_is_longer_than_the_others_wait() -> None:
    (note,) = found(group(600), longest=900.0, longest_at="train.py:40")
    assert "works alone for up to 15 min at train.py:40" in note.text


def test_a_section_that_may_take_longer_than_its_group() -> None:
    (note,) = found(section(3600), group(600))
    assert note.knobs == ("section 'save'",)
    assert "it may take 1 h, they give up after 10 min" in note.text


def test_the_timeout_of_a_barrier_replaces_that_of_its_group_but_ours_waits_inside_it() -> None:
    barrier = Knob("barrier", Layer.OPERATION, 3600.0, origin=Origin.SCRIPT)
    ours = Knob("unstuck.dist.barrier", Layer.OPERATION, 3600.0, origin=Origin.SCRIPT)
    assert found(barrier, group(600)) == []
    assert [note.knobs for note in found(ours, group(600))] == [("unstuck.dist.barrier",)]


def test_a_learned_patience_is_no_contradiction_but_an_asked_one_is() -> None:
    learned = Knob("patience", Layer.UNSTUCK, 900.0, origin=Origin.UNSTUCK)
    asked = Knob("patience", Layer.UNSTUCK, 900.0, origin=Origin.COMMAND)
    assert found(learned, group(600)) == []
    assert [note.knobs for note in found(asked, group(600))] == [("patience",)]


def test_a_scheduler_that_ends_the_job_before_a_hang_is_noticed() -> None:
    (note,) = found(group(1800), limit(1200))
    assert note.knobs == ("Slurm job 7", DEFAULT)
    assert found(group(1800), limit(3600)) == []


def test_a_watchdog_that_its_own_monitor_would_end() -> None:
    beat = variable("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "30", 30.0)
    (note,) = found(beat, backends=("nccl",))
    assert "waits 60 s for the dumps" in note.text
    dump = variable("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "5000", 5.0)
    assert found(beat, dump, backends=("nccl",)) == []
    assert found(beat, backends=("gloo",)) == []


def test_a_heartbeat_below_the_group_timeout_is_no_contradiction() -> None:
    """It watches the watchdog thread, not the collectives: torch's own defaults are so."""
    beat = variable("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "480", 480.0)
    assert found(beat, group(600, backend="nccl"), backends=("nccl",)) == []


def test_error_handling_that_is_off_takes_the_effect_of_all_timeouts() -> None:
    off = variable("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    (note,) = found(off, backends=("nccl",))
    assert "no timeout of an NCCL group has any effect" in note.text
    blocking = variable("TORCH_NCCL_BLOCKING_WAIT", "1")
    assert found(off, blocking, backends=("nccl",)) == []


def test_hints_are_no_contradictions() -> None:
    interval = Knob("monitor interval", Layer.LAUNCHER, 5.0, "", Origin.COMMAND, "torchrun -x")
    (note,) = found(interval)
    assert note.kind is NoteKind.HINT


def test_the_report_is_ordered_from_the_inside_out() -> None:
    found_ = judge(JobSettings("job", (limit(9000), group(600), section(60))))
    assert [knob.layer for knob in found_.knobs] == [Layer.SECTION, Layer.GROUP, Layer.SCHEDULER]
    assert found_.notes == found_.proposal == ()
