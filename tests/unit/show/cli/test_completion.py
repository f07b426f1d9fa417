"""Shells can complete our commands."""

import os
import subprocess
import sys

import pytest

from unstuck.show.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_says_how_to_install_it_and_asks_us(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    # click looks at the bash of this machine and warns on stderr if it is too old.
    assert main(["completion", shell]) == 0
    first, *rest = capsys.readouterr().out.splitlines()

    assert first.startswith("# To install: ")
    assert f"unstuck completion {shell}" in first
    assert any("_UNSTUCK_COMPLETE" in line for line in rest)


def answered(*words: str) -> list[str]:
    """What a shell is told that asks how the last of these words may go on."""
    asked = {
        "_UNSTUCK_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "unstuck"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    return done.stdout.splitlines()


def test_shell_is_answered_with_the_commands_that_fit() -> None:
    assert answered("unstuck", "com") == ["plain,completion"]


def test_commands_of_a_command_and_run_directories_complete_too() -> None:
    assert answered("unstuck", "ctl", "re") == ["plain,resume"]
    assert answered("unstuck", "ctl", "pause", "runs") == ["dir,runs"]
    assert answered("unstuck", "timeouts", "runs") == ["file,runs"]
