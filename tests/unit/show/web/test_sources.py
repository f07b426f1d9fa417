"""What lies in a run directory."""

from pathlib import Path

import pytest

from scenes import one_sleeps, verdict_of
from unstuck.collect import bundle
from unstuck.errors import BundleNotFoundError
from unstuck.show.web.sources import Folder, StoredRun


@pytest.fixture
def run(tmp_path: Path) -> Path:
    scene = one_sleeps()
    for _ in range(2):
        bundle.write(tmp_path / "run", scene.snapshot(), verdict_of(scene), about={})
    return tmp_path / "run"


def test_incidents_are_listed_newest_first_and_a_report_when_it_is_there(run: Path):
    folder = Folder(run)
    assert [(one.name, one.report) for one in folder.incidents()] == [
        ("incident-2", False),
        ("incident-1", False),
    ]

    (run / "incident-1" / "report.html").write_text("x")

    assert [one.report for one in folder.incidents()] == [False, True]
    assert folder.report("incident-1") == b"x"


@pytest.mark.parametrize("name", ["..", "../x", "incident-2", "incident-1/../..", "", "incident-"])
def test_only_reports_of_incidents_can_be_read(run: Path, name: str):
    assert Folder(run).report(name) is None


def test_a_damaged_incident_is_said_to_be_damaged(run: Path):
    (run / "incident-1" / "verdict.json").write_text("[]")

    assert Folder(run).incidents()[1].summary == "this incident is damaged"


def test_a_stored_run_shows_its_newest_incident(run: Path):
    stored = StoredRun(run)

    assert stored.verdict is not None
    assert len(stored.snapshot().ranks) == 4
    assert stored.run == run
    with pytest.raises(BundleNotFoundError):
        StoredRun(run.parent / "none")


def test_what_is_missing_is_empty(tmp_path: Path):
    folder = Folder(tmp_path / "gone")

    assert folder.incidents() == ()
    assert folder.settings() is None
    assert folder.ledger() == ()
