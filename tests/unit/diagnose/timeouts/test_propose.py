"""What is proposed removes what was found, and is silent where nothing was."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from unstuck.diagnose.timeouts import judge
from unstuck.diagnose.timeouts.propose import group_seconds
from unstuck.model.timeouts import JobSettings, Knob, KnobNote, Layer, NoteKind, Origin

DEFAULT = "default process group"
MAIN = Knob(DEFAULT, Layer.GROUP, 600.0, "", Origin.SCRIPT, "train.py:12", backend="gloo")
MESH = Knob("mesh_dp", Layer.GROUP, 1800.0, backend="gloo")
SAVE = Knob("section 'save'", Layer.SECTION, 3600.0, origin=Origin.SCRIPT)
LIMIT = Knob("Slurm job 7", Layer.SCHEDULER, 1200.0, origin=Origin.SCHEDULER)
VARIABLE = Knob("NCCL_TIMEOUT", Layer.WATCHDOG, None, "5400", Origin.ENVIRONMENT)

JOBS = {
    "a sub-group": JobSettings("job", (MAIN, MESH)),
    "a section": JobSettings("job", (SAVE, MAIN)),
    "the scheduler": JobSettings("job", (replace(MAIN, seconds=1800.0), LIMIT)),
    "a checkpoint": JobSettings("job", (MAIN,), longest=400.0),
    "all at once": JobSettings(
        "job", (SAVE, MAIN, MESH, replace(LIMIT, seconds=86400.0)), waited=500.0
    ),
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS.keys())
def test_a_job_that_follows_it_has_no_contradiction_left(job: JobSettings) -> None:
    assert wrong(job), "nothing to propose for"
    seconds = group_seconds(job)
    knobs = (
        replace(k, seconds=seconds, origin=Origin.SCRIPT) if k.layer is Layer.GROUP else k
        for k in job.knobs
    )
    assert wrong(replace(job, knobs=tuple(knobs))) == []


SECONDS = st.floats(1, 100_000)


@settings(deadline=None)  # a busy machine is no failure
@given(main=SECONDS, section=SECONDS, limit=SECONDS, waited=SECONDS, longest=SECONDS)
def test_whatever_the_figures_are(
    main: float, section: float, limit: float, waited: float, longest: float
) -> None:
    knobs = (
        replace(SAVE, seconds=section),
        replace(MAIN, seconds=main),
        MESH,
        replace(LIMIT, seconds=limit),
    )
    job = JobSettings("job", knobs, waited=waited, longest=longest)
    seconds = group_seconds(job)
    fitting = [
        replace(k, seconds=seconds, origin=Origin.SCRIPT) if k.layer is Layer.GROUP else k
        for k in knobs
    ]
    left = wrong(replace(job, knobs=tuple(fitting)))
    needs_longer_limit = any(one.place == "scheduler" for one in judge(job).proposal)
    assert bool(left) == needs_longer_limit
    assert all(note.knobs[0] == LIMIT.name for note in left)


def wrong(job: JobSettings) -> list[KnobNote]:
    return [note for note in judge(job).notes if note.kind is not NoteKind.HINT]


def lines(*knobs: Knob, longest: float = 0.0) -> list[tuple[str, str]]:
    found = judge(JobSettings("job", knobs, longest=longest))
    return [(one.place, one.line) for one in found.proposal]


def test_a_sub_group_gets_the_timeout_of_the_default_group() -> None:
    group = Knob("new_group at train.py:20", Layer.GROUP, 1800.0, where="train.py:20")
    assert lines(MAIN, group) == [
        ("train.py:20", "dist.new_group(..., timeout=timedelta(seconds=600))")
    ]


def test_a_mesh_has_no_argument_for_it() -> None:
    ((_, line),) = lines(MAIN, MESH)
    assert line == (
        "torch.distributed.distributed_c10d._set_pg_timeout("
        'timedelta(seconds=600), mesh.get_group("dp"))'
    )


def test_what_does_nothing_goes() -> None:
    assert lines(VARIABLE) == [("shell", "unset NCCL_TIMEOUT")]
    by_script = replace(VARIABLE, origin=Origin.SCRIPT, where="train.py:3")
    assert lines(by_script) == [("train.py:3", 'os.environ.pop("NCCL_TIMEOUT", None)')]


def test_three_times_the_longest_work_in_round_figures() -> None:
    assert lines(MAIN, longest=400.0) == [
        ("train.py:12", "dist.init_process_group(..., timeout=timedelta(seconds=1200))")
    ]


def test_a_hang_must_show_before_the_scheduler_ends_the_job() -> None:
    ((_, line),) = lines(replace(MAIN, seconds=1800.0), LIMIT)
    assert "seconds=300" in line


def test_where_nothing_is_wrong_nothing_is_proposed() -> None:
    assert lines(MAIN) == []
