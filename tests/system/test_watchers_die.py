"""The job never dies of us: agent or hub killed, and training goes on to its end."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from unstuck.lab.job import Job

pytestmark = pytest.mark.system


@pytest.mark.parametrize("watcher", ["agent_pid", "hub_pid"])
def test_training_goes_on_without_its_watcher(
    job: Callable[..., Job], watcher: Literal["agent_pid", "hub_pid"]
) -> None:
    running = job("healthy", ranks=2, env={"STEPS": "80", "FAULT_RANK": "1"})
    pid = _watcher(running, watcher)
    assert pid in running.pids(), "the pid of the watcher is not one of this job"
    if pid == running.process.pid:
        pytest.skip(f"{watcher} is `unstuck run` itself, which cannot outlive its own death")
    running.wait_onset()
    os.kill(pid, signal.SIGKILL)

    assert running.wait_exit(90) == 0, running.words()
    assert "trained" in running.stdout.read_text()
    assert running.verdicts() == []


def _watcher(running: Job, name: str) -> int:
    file: Path = running.run_dir / "unstuck.json"
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            pid = json.loads(file.read_text()).get(name)
        except (FileNotFoundError, json.JSONDecodeError):
            pid = None
        if pid:
            return int(pid)
        time.sleep(0.1)
    raise AssertionError(f"{file} never named {name}\n{running.words()}")
