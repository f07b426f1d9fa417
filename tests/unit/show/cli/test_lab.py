"""`unstuck lab` lists, refuses clearly, and says with its exit code how it went."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from unstuck.lab.crew import Task
from unstuck.lab.results import Results
from unstuck.lab.run import Blamed, Run
from unstuck.lab.scenario import Scenario
from unstuck.show.cli.main import main

Capture = pytest.CaptureFixture[str]
RIGHT = {"cause": "process-crash", "culprits": (Blamed(2, "a"),), "seconds": 0.4}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let every run give these facts; no job is started."""
    facts: dict[str, Any] = dict(RIGHT)

    def run_all(
        tasks: Sequence[Task], audience: Any, results: Results, keep: Any, jobs: int
    ) -> None:
        for scenario, number in tasks:
            if facts.get("interrupted") == number:
                raise KeyboardInterrupt
            given = {key: value for key, value in facts.items() if key != "interrupted"}
            results.add(Run(scenario.name, number, **given))
            audience.end(scenario, results.runs[-1])

    monkeypatch.setattr("unstuck.lab.session.run_all", run_all)
    monkeypatch.setattr("unstuck.lab.sweep.sweep", list[str])
    return facts


def test_the_list_has_every_scenario_and_says_what_can_run_here(capsys: Capture) -> None:
    assert main(["lab", "list", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)}

    assert listed["sigkill"]["causes"] == ["process-crash"]
    assert listed["stop-from-outside"]["fault"] == {"name": "stop", "rank": 2}
    assert all(each["runnable"] == (each["why_not"] == "") for each in listed.values())

    assert main(["lab", "list", "sig*"]) == 0
    assert "sigkill" in capsys.readouterr().out


def test_all_right_is_exit_code_0_and_a_table(capsys: Capture, runs: dict[str, Any]) -> None:
    assert main(["lab", "run", "sigkill", "--repeat", "3"]) == 0
    said = capsys.readouterr()

    assert "3 of 3 runs right in every way; culprit exact in 3 of 3; innocents accused: 0." in (
        said.out
    )
    assert said.err.splitlines()[0] == "sigkill 1: right: process-crash of rank 2 after 0.40 s"


def test_something_wrong_is_exit_code_1_and_a_line_that_says_what(
    capsys: Capture, runs: dict[str, Any]
) -> None:
    runs["cause"] = "unknown"

    assert main(["lab", "run", "sigkill"]) == 1
    assert "unknown of 2; right is process-crash of 2" in capsys.readouterr().out


def test_json_has_the_score_and_every_run(capsys: Capture, runs: dict[str, Any]) -> None:
    assert main(["lab", "run", "sigkill", "exception", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)

    assert result["schema"] == "unstuck.lab/1"
    assert result["score"]["confusion"] == {"process-crash": {"process-crash": 2}}
    assert [run["scenario"] for run in result["runs"]] == ["sigkill", "exception"]
    assert result["machine"]["cores"] >= 1


def test_ctrl_c_still_prints_what_was_run_until_then(capsys: Capture, runs: dict[str, Any]) -> None:
    runs["interrupted"] = 2

    assert main(["lab", "run", "sigkill", "--repeat", "5"]) == 130
    assert "1 of 1 runs right" in capsys.readouterr().out


def test_an_unknown_name_is_a_usage_error_with_the_nearest(capsys: Capture) -> None:
    assert main(["lab", "run", "sigkil"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "unstuck: there is no scenario sigkil",
        "  did you mean sigkill?",
    ]


def test_without_torch_it_says_what_to_install(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unstuck.lab.runner.find_spec", lambda name: None)

    assert main(["lab", "run", "sigkill"]) == 3
    assert "torch is not installed" in capsys.readouterr().err


def test_the_second_lab_runs_its_jobs_in_their_own_environment_for_hours(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runs: dict[str, Any]
) -> None:
    def run_for(
        hours: float, jobs: list[Scenario], audience: Any, results: Results, *_: Any
    ) -> None:
        assert {each.python for each in jobs} == {str(tmp_path / "python")}
        results.add(Run(jobs[0].name, 1, exit_code=0, watched=hours * 3600))

    monkeypatch.setattr("unstuck.lab.libraries.prepare", lambda home: str(tmp_path / "python"))
    monkeypatch.setattr("unstuck.lab.session.run_for", run_for)

    assert main(["lab", "run", "--world", "--hours", "4", "light*"]) == 0
    assert "false alarms: 0 in 4.00 healthy hours" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--hours", "4"], "--hours needs --world"),
        (["--world", "--scenarios", "mine.toml"], "exclude each other"),
    ],
)
def test_options_of_the_two_labs_are_not_mixed(
    capsys: Capture, options: list[str], complaint: str
) -> None:
    assert main(["lab", "run", *options]) == 2
    assert complaint in capsys.readouterr().err


def test_a_shell_completes_the_names(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "unstuck lab run sigk", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "unstuck"],
        env={**os.environ, "_UNSTUCK_COMPLETE": "bash_complete", **words},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("plain,sigkill\n", 0)
