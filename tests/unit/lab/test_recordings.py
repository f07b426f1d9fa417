"""A simulated job on disk leads to the same rank as the live picture of it."""

from pathlib import Path

import pytest

from unstuck.diagnose.diagnose import diagnose
from unstuck.lab import recordings
from unstuck.lab.simulate import CAUSES, FaultKind, draw, snapshot
from unstuck.model.verdict import Cause
from unstuck.observe.dumps.files import read
from unstuck.observe.dumps.to_snapshot import make_snapshot


@pytest.mark.parametrize("ahead", [0, 5, 40])
@pytest.mark.parametrize(
    "kind", [FaultKind.STUCK, FaultKind.WRONG_OP, FaultKind.INVERSION], ids=str
)
def test_dumps_name_the_same_rank_as_live_watching(kind: FaultKind, ahead: int, tmp_path: Path):
    for seed in range(4):
        made = draw(seed, kinds=(kind,), ahead=ahead)
        home = tmp_path / str(seed)
        home.mkdir()
        assert recordings.write(made, home) == made.layout.size
        live, dead = (
            diagnose(snapshot(made)).verdict,
            diagnose(make_snapshot(read([home]))).verdict,
        )

        assert live is not None
        assert dead is not None
        assert [one.rank for one in dead.culprits] == [made.fault.rank]
        assert dead.victims == live.victims
        # What a rank did instead of coming is not in a dump.
        assert dead.cause is (Cause.UNKNOWN if kind is FaultKind.STUCK else CAUSES[kind])


@pytest.mark.parametrize("ahead", [0, 40])
def test_a_dead_rank_leaves_no_dump_and_is_told_as_missing(ahead: int, tmp_path: Path):
    made = draw(5, kinds=(FaultKind.DEAD,), ahead=ahead)
    assert recordings.write(made, tmp_path) == made.layout.size - 1
    verdict = diagnose(make_snapshot(read([tmp_path]))).verdict

    assert verdict is not None
    assert verdict.culprits == ()
    assert (
        f"rank {made.fault.rank}, for which the others wait, cannot be observed" in verdict.summary
    )


@pytest.mark.parametrize("active", [False, True], ids=["all entries", "active entries"])
@pytest.mark.parametrize("ahead", [0, 5, 40])
def test_dumps_name_the_rank_whose_gpu_stopped(ahead: int, active: bool, tmp_path: Path):
    for seed in range(4):
        made = draw(seed, kinds=(FaultKind.GPU_STOPPED,), slip=6, ahead=ahead)
        home = tmp_path / str(seed)
        home.mkdir()
        recordings.write(made, home, active=active)
        verdict = diagnose(make_snapshot(read([home]))).verdict

        assert verdict is not None
        assert verdict.cause is Cause.HARDWARE_FAULT
        assert [one.rank for one in verdict.culprits] == [made.fault.rank]
