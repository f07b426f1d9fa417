"""The timeouts of a real job, and a pause while it hangs."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from unstuck.lab.job import LAUNCHER, UNSTUCK, Job
from unstuck.observe.probe import link

pytestmark = pytest.mark.system

SCRIPT = """
import os, time
from datetime import timedelta
import torch, torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=77))
group = dist.new_group([0, 1])
for step in range(20):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.1)
while not os.path.exists(os.environ["GO"]):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.1)
if dist.get_rank() == 1:
    time.sleep(3600)
dist.barrier(group)
"""


def unstuck(*arguments: str) -> str:
    done = subprocess.run(
        [*UNSTUCK, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def stalled_for(job: Job) -> float:
    """For how long the rank that waits has done so, as its agent says."""
    (door,) = job.run_dir.glob("live-*/agent.sock")
    told = link.ask({"ask": "ranks"}, 2.0, str(door.resolve()))
    return told["ranks"]["0"]["seconds"] if told else 0.0


def test_what_the_ranks_have_is_told_and_a_pause_holds_until_it_is_over(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    script, go = tmp_path / "train.py", tmp_path / "go"
    script.write_text(SCRIPT)
    command = (*LAUNCHER, "--standalone", "--nproc-per-node", "2", str(script))
    env = {"NCCL_TIMEOUT": "5400", "GO": str(go)}
    job = start(*command, options=("--patience", "3s"), env=env)
    told = job.run_dir / "timeouts.json"
    job._until(lambda: told.exists() or None, 60, "no rank told its timeouts")

    found = json.loads(unstuck("timeouts", "--json", str(job.run_dir)))
    timeouts = {knob["name"]: (knob["seconds"], knob["where"]) for knob in found["knobs"]
                if knob["layer"] == "process group"}  # fmt: skip
    assert timeouts == {
        "default process group": (77.0, "train.py:6"),
        "group 1": (1800.0, "train.py:7"),
    }
    wrong = {note["knobs"][0] for note in found["notes"]}
    assert wrong == {"NCCL_TIMEOUT=5400", "group 1"}
    assert "NCCL_TIMEOUT=5400: neither torch nor NCCL reads it" in job.words()

    unstuck("ctl", "pause", str(job.run_dir))
    go.touch()
    quiet = 5.0  # a stall of this job is told after three seconds
    job._until(lambda: stalled_for(job) > quiet or None, 30, "it did not hang")
    assert job.verdicts() == []
    unstuck("ctl", "resume", str(job.run_dir))
    verdict = job.wait_verdict(30)
    assert [culprit["rank"] for culprit in verdict["culprits"]] == [1]
    incident = str(job.run_dir / "incident-1")
    assert "rank 1" in unstuck("diagnose", incident)
    assert "group 1" in unstuck("timeouts", incident)
