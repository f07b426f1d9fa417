"""`unstuck report`: one incident as a document."""

import json
from pathlib import Path

import pytest

from scenes import job, one_sleeps, verdict_of
from unstuck.collect import bundle
from unstuck.show.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def incident(tmp_path: Path) -> Path:
    scene = one_sleeps()
    return bundle.write(tmp_path, scene.snapshot(), verdict_of(scene), about={})


def test_html_goes_beside_the_incident_and_its_place_is_printed(incident: Path, capsys: Capture):
    assert main(["report", str(incident.parent)]) == 0

    written = incident / "report.html"
    assert capsys.readouterr().out == f"{written}\n"
    assert written.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(("name", "begins"), [("a.md", "**unstuck"), ("a.json", "{")])
def test_the_ending_of_the_file_says_what_to_write(incident: Path, name: str, begins: str):
    target = incident.parent / name

    assert main(["report", str(incident), "-o", str(target)]) == 0

    assert target.read_text().startswith(begins)


def test_json_has_the_verdict_and_every_view(incident: Path, capsys: Capture):
    main(["report", str(incident), "--format", "json"])

    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "unstuck.report/1"
    assert found["verdict"]["culprits"][0]["rank"] == 2
    assert found["job"]["grid"]["states"] == "wwbw"
    assert found["stacks"]["count"] == 4


def test_a_trace_is_written_where_a_recorder_was_read(incident: Path, capsys: Capture):
    target = incident.parent / "trace.json"

    main(["report", str(incident), "--format", "md", "--trace", str(target)])

    assert "traceEvents" in json.loads(target.read_text())


def test_without_a_recorder_it_says_so(tmp_path: Path, capsys: Capture):
    path = bundle.write(tmp_path, job().snapshot(), None, about={})

    assert main(["report", str(path), "--trace", str(tmp_path / "t.json")]) == 3
    assert "no flight recorder was read" in capsys.readouterr().err


def test_a_damaged_bundle_is_a_clear_error(incident: Path, capsys: Capture):
    (incident / "snapshot.json").write_text("{")

    assert main(["report", str(incident)]) == 2
    assert "cut short" in capsys.readouterr().err
