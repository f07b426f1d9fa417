"""`unstuck run` hands the command over, and refuses what is no command."""

from pathlib import Path
from typing import Any

import pytest

from unstuck.show.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Record how the command would be launched; nothing is started."""
    monkeypatch.chdir(tmp_path)
    seen: dict[str, Any] = {}

    def launch(argv: tuple[str, ...], **options: Any) -> int:
        seen.update(options, argv=argv)
        return 7

    monkeypatch.setattr("unstuck.launch.run.run", launch)
    return seen


@pytest.mark.parametrize("dash", [[], ["--"]], ids=["bare", "after --"])
def test_command_keeps_its_own_options_and_exit_code(launched: dict[str, Any], dash: list[str]):
    command = ["torchrun", "--nproc-per-node", "4", "train.py", "--json"]
    assert main(["run", "--name", "seven", *dash, *command]) == 7

    assert launched["argv"] == tuple(command)
    assert (launched["name"], launched["as_json"], launched["respawn"]) == ("seven", False, 0)
    assert launched["policy"] is None


@pytest.mark.parametrize("option", [["--recover"], ["--on", "process-crash=report,restart:3"]])
def test_recover_or_a_rule_of_ones_own_makes_a_policy(launched: dict[str, Any], option: list[str]):
    assert main(["run", *option, "python", "train.py"]) == 7
    assert [str(step) for step in launched["policy"].rules["process-crash"]].count("report") == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["run"], "no command to run"),
        (["run", "--"], "no command to run"),
        (["run", "--recvoer", "torchrun"], "there is no option --recvoer"),
        (["run", "--respawn", "-1", "torchrun"], "-1 is not in the range"),
    ],
)
def test_what_is_no_command_is_refused(
    launched: dict[str, Any], capsys: Capture, argv: list[str], said: str
):
    assert main(argv) == 2
    assert said in capsys.readouterr().err
    assert launched == {}
