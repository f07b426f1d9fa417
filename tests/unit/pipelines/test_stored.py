"""A stored incident is judged again: from a bundle, or from PyTorch's own dumps."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from scenes import one_sleeps
from unstuck.collect import bundle
from unstuck.diagnose.diagnose import diagnose
from unstuck.errors import BundleNotFoundError, UsageError
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause, Verdict
from unstuck.pipelines.stored import judge

DUMPS = Path(__file__).parents[2] / "golden" / "dumps"
SNAPSHOT = one_sleeps().snapshot()


def stored(run: Path, verdict: Verdict | None, **about: str) -> Path:
    return bundle.write(run, SNAPSHOT, verdict, about=about)


def test_bundle_gives_the_verdict_of_its_snapshot_with_advice(tmp_path: Path):
    fresh = diagnose(SNAPSHOT).verdict
    path = stored(tmp_path, fresh)
    judged = judge([path])

    assert fresh is not None
    assert judged.verdict is not None
    assert judged.verdict.cause is fresh.cause
    assert judged.verdict.do
    assert (judged.bundle, judged.notes) == (path, ())


def test_run_directory_stands_for_its_newest_incident(tmp_path: Path):
    stored(tmp_path, None)
    newest = stored(tmp_path, None)

    assert judge([tmp_path]).bundle == newest


@pytest.mark.parametrize(
    ("cause", "was"), [(None, "nothing wrong"), (Cause.UNKNOWN, "unknown, rank 2")]
)
def test_verdict_that_differs_from_the_stored_one_is_noted(
    tmp_path: Path, cause: Cause | None, was: str
):
    fresh = diagnose(SNAPSHOT).verdict
    assert fresh is not None
    path = stored(tmp_path, replace(fresh, cause=cause) if cause else None)
    (note,) = judge([path]).notes

    assert note.startswith(f"this verdict differs from the stored one ({was}); stored by unstuck ")


def test_healthy_snapshot_has_no_verdict(tmp_path: Path):
    path = bundle.write(tmp_path, Snapshot(taken_at=1.0), None, about={})

    assert judge([path]).verdict is None


def test_dumps_are_recognised_by_what_is_in_the_directory():
    judged = judge([DUMPS / "wrong-op"])

    assert judged.verdict is not None
    assert judged.verdict.cause is Cause.COLLECTIVE_MISMATCH
    assert (judged.source, judged.bundle) == ("the dumps of 4 ranks", None)


def test_dump_files_may_be_given_one_by_one():
    verdict = judge([DUMPS / "absent" / f"trace_{rank}.json" for rank in range(4)]).verdict

    assert verdict is not None
    assert [culprit.rank for culprit in verdict.culprits] == [2]


def test_gap_in_the_dumps_is_noted_and_becomes_evidence(tmp_path: Path):
    shutil.copytree(DUMPS / "absent", tmp_path / "t")
    (tmp_path / "t" / "trace_3.json").write_text("{")
    judged = judge([tmp_path / "t"])

    assert judged.verdict is not None
    assert any("trace_3.json" in note for note in judged.notes)
    assert any("trace_3.json" in item.text for item in judged.verdict.evidence)


def test_several_bundles_are_a_usage_error(tmp_path: Path):
    first, second = stored(tmp_path, None), stored(tmp_path, None)

    with pytest.raises(UsageError, match="several paths"):
        judge([first, second])


def test_nothing_at_the_path_is_said(tmp_path: Path):
    with pytest.raises(BundleNotFoundError):
        judge([tmp_path / "typo"])
