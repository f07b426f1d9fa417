"""`unstuck run` is transparent: streams, exit code, signals and start-up code of the command."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from expectations import PROGRAMS
from jobs import end_by_ctrl_c
from unstuck.lab.job import Job

pytestmark = pytest.mark.system

Start = Callable[..., Job]


def _python(program: str) -> tuple[str, str]:
    return sys.executable, str(PROGRAMS / f"{program}.py")


def test_standard_input_and_output_pass(start: Start) -> None:
    echo = start(*_python("stdin_echo"), stdin=subprocess.PIPE)
    assert echo.process.stdin is not None
    echo.process.stdin.write(b"hello\nworld\n")
    echo.process.stdin.close()

    assert echo.wait_exit(20) == 0
    assert echo.stdout.read_text() == "HELLO\nWORLD\n"


@pytest.mark.parametrize("code", [0, 3, 77])
def test_the_exit_code_passes(start: Start, code: int) -> None:
    plain = start(*_python("no_dist"), env={"EXIT_CODE": str(code)})

    assert plain.wait_exit(20) == code
    assert plain.stdout.read_text() == "the answer is 42\n"
    assert "a word on stderr" in plain.stderr.read_text()
    assert plain.verdicts() == []


def test_death_by_a_signal_shows_in_the_exit_code(start: Start) -> None:
    killed = start("sh", "-c", "kill -TERM $$")

    assert killed.wait_exit(20) in (128 + signal.SIGTERM, -signal.SIGTERM)


def test_two_dashes_end_the_options(start: Start) -> None:
    dashed = start("sh", "-c", 'echo "$1"', "sh", "--name", options=("--",))

    assert dashed.wait_exit(20) == 0
    assert dashed.stdout.read_text() == "--name\n"


def test_the_users_own_sitecustomize_still_runs(start: Start) -> None:
    folder = str(PROGRAMS / "user_sitecustomize")
    checked = start(*_python("site_check"), env={"PYTHONPATH": folder})

    assert checked.wait_exit(20) == 0, checked.words()
    assert checked.stdout.read_text() == "sitecustomize ran\n"


def test_one_ctrl_c_ends_everything_before_there_is_a_verdict(job: Start) -> None:
    """After the verdict the tests of hangs end their jobs so, in other ways as well."""
    running = job("sigstop", ranks=2, env={"FAULT_RANK": "1"})
    running.wait_onset()
    end_by_ctrl_c(running, everybody=True)


def test_ctrl_c_in_a_healthy_job_is_no_incident(job: Start) -> None:
    running = job("healthy", ranks=2, env={"STEPS": "1000", "FAULT_RANK": "1"})
    running.wait_onset()
    running.interrupt(everybody=True)

    assert running.wait_exit(15) != 0
    assert running.verdicts() == []


def test_sigterm_ends_the_job_too(job: Start) -> None:
    running = job("healthy", ranks=2, env={"STEPS": "1000", "FAULT_RANK": "1"})
    running.wait_onset()
    os.kill(running.process.pid, signal.SIGTERM)

    assert running.wait_exit(15) != 0
    assert not running.wait_gone(5)
    assert running.verdicts() == []


def test_ranks_that_are_asked_to_end_finish_their_step_and_save(job: Start, tmp_path: Path) -> None:
    """Rank 0 waits in a collective for longer than a rank that reacts to nothing is left alone."""
    kept = tmp_path / "checkpoint"
    running = job("saves_at_the_end", ranks=2, env={"FAULT_RANK": "1", "CHECKPOINT": str(kept)})
    running.wait_onset()
    time.sleep(0.5)  # until rank 0 is in it
    os.kill(running.process.pid, signal.SIGTERM)

    running.wait_exit(35)
    assert kept.read_text() == "saved", running.words()
    assert running.verdicts() == []


def test_a_pause_of_everything_is_survived(job: Callable[..., Job]) -> None:
    running = job("healthy", ranks=2, env={"STEPS": "40"})
    running.wait_watched()
    for _ in range(3):
        os.kill(running.process.pid, signal.SIGSTOP)
        time.sleep(0.6)  # longer than the supervisor's own look at the clock
        os.kill(running.process.pid, signal.SIGCONT)
        time.sleep(0.1)

    assert running.wait_exit(90) == 0, running.words()
    assert "bug in unstuck" not in running.stderr.read_text()
