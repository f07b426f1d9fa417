"""The report that is written beside every incident."""

from pathlib import Path

import pytest

from children import until
from scenes import one_sleeps, verdict_of
from unstuck.collect import bundle
from unstuck.pipelines.incident_report import NAME, ReportWriter, load, main, read_ledger


@pytest.fixture
def incident(tmp_path: Path) -> Path:
    scene = one_sleeps()
    return bundle.write(tmp_path, scene.snapshot(), verdict_of(scene), about={"command": ["x"]})


def test_it_is_written_beside_the_incident_by_a_process_of_its_own(incident: Path):
    writer = ReportWriter()

    writer.write(incident)
    until((incident / NAME).exists)
    writer.finish(10)

    assert "busy-elsewhere" in (incident / NAME).read_text()
    assert bundle.read(incident).verdict == load(incident).verdict


def test_a_failure_is_one_line_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(tmp_path / "incident-7")]) == 1

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "could not write the report of incident-7" in said


def test_one_that_takes_too_long_is_ended(incident: Path):
    writer = ReportWriter()
    writer.write(incident)

    writer.finish(0)

    assert writer._running == []


def test_damaged_lines_of_a_ledger_are_left_out(tmp_path: Path):
    (tmp_path / "ledger.jsonl").write_text('{"act": "dump"}\n{"act": \n')

    assert read_ledger(tmp_path / "ledger.jsonl") == ({"act": "dump"},)
    assert read_ledger(tmp_path / "none") == ()
