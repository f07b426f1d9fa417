"""`@unstuck.resilient` under torchrun: the others continue, and the lost rank comes back."""

import re
import time
from collections.abc import Callable

import pytest

from expectations import PROGRAMS
from unstuck.lab.job import LAUNCHER, Job

pytestmark = [pytest.mark.system, pytest.mark.timeout(200)]

PATIENCE = 120
Begin = Callable[..., Job]


@pytest.fixture
def begin(start: Callable[..., Job]) -> Begin:
    """Start a training of three ranks in which one is lost at step 25."""

    def go(fault: str, rank: int, steps: int) -> Job:
        env = {"FAULT": fault, "FAULT_RANK": str(rank), "FAULT_STEP": "25", "STEPS": str(steps)}
        size = ("--standalone", "--nproc-per-node", "3")
        stays = str(PROGRAMS / "stays.py")
        return start(*LAUNCHER, *size, stays, options=("--respawn", "2"), env=env)

    return go


def steps(job: Job) -> list[tuple[int, int, int]]:
    """Return (losses, step, world size) of every completed step."""
    found = re.findall(r"attempt (\d+) step (\d+) at [\d.]+ of (\d+)", job.stdout.read_text())
    return [(int(losses), int(step), int(size)) for losses, step, size in found]


@pytest.mark.parametrize("rank", [2, 0], ids=["last", "first"])
def test_a_rank_that_dies_is_replaced_while_the_others_train(begin: Begin, rank: int):
    job = begin("kill", rank, 600)
    assert job.wait_exit(PATIENCE) == 0, job.words()
    done = steps(job)
    assert [step for losses, step, _ in done if losses == 0][-1] in (25, 26), job.words()
    assert next(size for losses, _, size in done if losses == 1) == 2, job.words()
    assert done[-1][1:] == (600, 3), job.words()
    output = job.stderr.read_text()
    assert f"rank {rank} ended (signal 9); starting it again by itself" in output
    assert f"(without rank {rank})" in output
    assert f"(rank {rank} is back)" in output


@pytest.mark.parametrize("rank", [1, 0], ids=["one", "first"])
def test_the_others_continue_without_a_stopped_rank(begin: Begin, rank: int):
    job = begin("stop", rank, 60)
    verdict = job.wait_verdict(60)
    assert (verdict["cause"], [c["rank"] for c in verdict["culprits"]]) == (
        "process-stopped",
        [rank],
    )
    deadline = time.monotonic() + PATIENCE
    while steps(job)[-1][1:] != (60, 2):
        assert time.monotonic() < deadline, job.words()
        time.sleep(0.1)
