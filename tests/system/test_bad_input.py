"""Wrong input: one line that says what is wrong, an exit code of its own, nothing started."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from unstuck.lab.job import UNSTUCK

pytestmark = pytest.mark.system

USER_ERROR, WORLD_ERROR, NOT_FOUND = 2, 3, 127


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [*UNSTUCK, "run", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)


def _complaint(result: subprocess.CompletedProcess[str]) -> str:
    """Give the one line that says what is wrong; at most a hint may follow it."""
    first, *hint = result.stderr.splitlines()
    assert first.startswith("unstuck: "), result.stderr
    assert len(hint) <= 1, result.stderr
    assert "bug" not in first, result.stderr
    return first


def test_no_command() -> None:
    result = _run()
    assert result.returncode == USER_ERROR
    assert "command" in _complaint(result).lower()


def test_unknown_option() -> None:
    result = _run("--no-such-option", "true")
    assert result.returncode == USER_ERROR
    assert "--no-such-option" in _complaint(result)


def test_unwritable_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wrong = str(tmp_path / "file" / "run")
    result = _run("--run-dir", wrong, "sh", "-c", "echo started")
    assert result.returncode in (USER_ERROR, WORLD_ERROR)
    assert wrong in _complaint(result)
    assert "started" not in result.stdout


@pytest.mark.parametrize("hub", ["127.0.0.1:99999", "127.0.0.1:http", ":29529"])
def test_a_hub_address_that_is_none(tmp_path: Path, hub: str) -> None:
    result = _run("--run-dir", str(tmp_path / "run"), "--hub", hub, "sh", "-c", "echo started")
    assert result.returncode == USER_ERROR, result.stderr
    assert hub in _complaint(result)
    assert "started" not in result.stdout


def test_a_hub_on_a_host_that_nobody_knows(tmp_path: Path) -> None:
    result = _run("--run-dir", str(tmp_path / "run"), "--hub", "nowhere.invalid:29529", "true")
    assert result.returncode == USER_ERROR
    assert "nowhere.invalid" in _complaint(result)


def test_busy_hub_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = str(stranger.getsockname()[1])
        options = ("--run-dir", str(tmp_path / "run"), "--hub", f"127.0.0.1:{port}")
        result = _run(*options, "sh", "-c", "echo started")
    assert result.returncode == USER_ERROR
    assert port in _complaint(result)
    assert "started" not in result.stdout


def test_missing_program(tmp_path: Path) -> None:
    result = _run("--run-dir", str(tmp_path / "run"), "no-such-program-anywhere")
    assert result.returncode in (USER_ERROR, NOT_FOUND)
    assert "no-such-program-anywhere" in _complaint(result)


def test_missing_script_is_the_interpreters_own_error(tmp_path: Path) -> None:
    run_dir = str(tmp_path / "run")
    result = _run("--run-dir", run_dir, sys.executable, str(tmp_path / "missing.py"))
    assert result.returncode == 2
    assert "missing.py" in result.stderr
    assert "Traceback" not in result.stderr
