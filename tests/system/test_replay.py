"""An incident is judged again from its bundle alone, and the answer is the same."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from unstuck.lab.job import UNSTUCK, Job

pytestmark = pytest.mark.system


def test_a_bundle_gives_the_same_verdict_elsewhere_and_without_torch(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    running = job("ddp_sleep")
    running.wait_onset()
    live = running.wait_verdict()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(running.run_dir / "incident-1", elsewhere)
    hidden = tmp_path / "no-torch"
    hidden.mkdir()
    (hidden / "torch.py").write_text("raise ImportError('torch is hidden by this test')\n")

    replay = subprocess.run(
        [*UNSTUCK, "diagnose", elsewhere, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(hidden)},
    )

    assert replay.returncode == 1
    assert replay.stderr == ""
    assert json.loads(replay.stdout)["verdict"] == live
