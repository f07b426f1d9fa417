"""`unstuck policy` says what would be done, and lets a node come back."""

import json
from pathlib import Path

import pytest

from unstuck.act.steps import exclude
from unstuck.act.steps.exclude import Excluded
from unstuck.model.verdict import Cause
from unstuck.show.cli.main import main

Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_show_has_a_line_for_every_cause(capsys: Said):
    assert main(["policy", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[: len(Cause)]} == {*Cause}


def test_show_says_where_a_rule_comes_from(capsys: Said, tmp_path: Path):
    (tmp_path / "unstuck.toml").write_text('[policy]\nunknown = ["report"]\n')
    assert main(["policy", "show", "--on", "store-lost=report", "--json"]) == 0
    rules = json.loads(capsys.readouterr().out)["rules"]
    assert rules["unknown"] == {"acts": ["report"], "origin": "unstuck.toml"}
    assert rules["store-lost"] == {"acts": ["report"], "origin": "--on"}


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_can_be_explained(cause: Cause, capsys: Said):
    assert main(["policy", "explain", cause]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{cause}, with --recover (default):")
    assert "\nwhy: " in text
    assert main(["policy", "explain", cause, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["acts"]) == len(told["words"])


def test_without_recover_it_says_that_nothing_is_touched(capsys: Said):
    assert main(["policy", "explain", "process-crash", "--no-recover"]) == 0
    text = capsys.readouterr().out
    assert "restart" not in text
    assert "print the verdict" in text


def test_unknown_cause_is_one_line(capsys: Said):
    assert main(["policy", "explain", "proces-crash"]) == 2
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "unstuck: there is no cause `proces-crash`; did you mean `process-crash`?"


def test_excluded_node_may_come_back(tmp_path: Path, capsys: Said):
    exclude.write(tmp_path, (Excluded("node7", "died", 1.0), Excluded("node8", "died", 1.0)))
    assert main(["policy", "allow", "node7", "--run-dir", str(tmp_path)]) == 0
    assert [one.host for one in exclude.read(tmp_path)] == ["node8"]
    assert main(["policy", "allow", "node7", "--run-dir", str(tmp_path)]) == 2
    assert "excluded: node8" in capsys.readouterr().err


def test_node_is_allowed_back_after_its_time(tmp_path: Path):
    exclude.write(tmp_path, (Excluded("node7", "died", 1.0, until=100.0),))
    assert [one.host for one in exclude.read(tmp_path, now=99.0)] == ["node7"]
    assert exclude.read(tmp_path, now=101.0) == ()
    (tmp_path / "excluded.json").write_text("{")
    assert exclude.read(tmp_path) == ()
