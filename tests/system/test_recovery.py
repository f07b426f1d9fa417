"""With --recover the job carries on where it can, and ends with a telling code where it cannot."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expectations import PROGRAMS
from unstuck.lab.job import LAUNCHER, Job

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

RECOVERS = str(PROGRAMS / "recovers.py")
PATIENCE = 170
"""Seconds; some ten are enough on a machine that has nothing else to do."""
Begin = Callable[..., Job]


@pytest.fixture
def begin(start: Callable[..., Job], tmp_path: Path) -> Begin:
    """Start the training with a fault in rank 1 at step 25; rank 0 saves every tenth step."""

    def go(fault: str, *options: str, restarts: int = 3, ranks: int = 2, **env: str) -> Job:
        size = ("--standalone", "--nproc-per-node", str(ranks), "--max-restarts", str(restarts))
        told = {"FAULT": fault, "FAULT_RANK": "1", "FAULT_STEP": "25", "STEPS": "40", **env}
        told["CHECKPOINT"] = str(tmp_path / "saved.pt")
        return start(*LAUNCHER, *size, RECOVERS, options=options or ("--recover",), env=told)

    return go


def acts(job: Job) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job.run_dir / "ledger.jsonl").read_text().splitlines()]


def steps(job: Job, attempt: int) -> list[int]:
    return [int(n) for n in re.findall(rf"attempt {attempt} step (\d+) ", job.stdout.read_text())]


@pytest.mark.parametrize(
    ("fault", "cause"), [("kill", "process-crash"), ("stop", "process-stopped")]
)
def test_lost_rank_costs_a_restart_from_the_last_checkpoint(begin: Begin, fault: str, cause: str):
    job = begin(fault)
    assert job.wait_exit(PATIENCE) == 0, job.words()
    assert steps(job, 1) == list(range(21, 41)), job.words()
    assert [verdict["cause"] for verdict in job.verdicts()] == [cause], job.words()
    assert "the job continues" in job.stderr.read_text()
    assert [act["act"] for act in acts(job)][-1] == "restart"


def test_survivor_in_a_collective_saves_before_it_is_ended(begin: Begin):
    job = begin("stop", HOOK="1")
    assert job.wait_exit(PATIENCE) == 0, job.words()
    assert "saved 25 on stall" in job.stdout.read_text(), job.words()
    assert steps(job, 1) == list(range(26, 41))
    assert [act["act"] for act in acts(job)][-2:] == ["checkpoint", "restart"]


@pytest.mark.parametrize("hook", ["hang", "die"])
def test_fault_in_the_hook_costs_its_time_and_no_more(begin: Begin, hook: str):
    job = begin("stop", HOOK=hook)
    assert job.wait_exit(PATIENCE) == 0, job.words()
    assert steps(job, 1) == list(range(21, 41)), job.words()
    assert [act["act"] for act in acts(job)][-2:] == ["checkpoint", "restart"]


def test_fault_during_the_restart_costs_another_one(begin: Begin):
    job = begin("stop", AGAIN="1")
    assert job.wait_exit(PATIENCE) == 0, job.words()
    assert steps(job, 1) == []
    assert steps(job, 2) == list(range(21, 41)), job.words()


def test_mismatch_is_stopped_at_once(begin: Begin):
    job = begin("mismatch", ranks=3)
    assert job.wait_exit(PATIENCE) == 82, job.words()
    assert steps(job, 1) == []
    assert [verdict["cause"] for verdict in job.verdicts()] == ["collective-mismatch"]


def test_healthy_rank_that_looks_stuck_is_noticed_and_left_alone(begin: Begin):
    job = begin("upload")
    assert job.wait_exit(PATIENCE) == 0, job.words()
    assert steps(job, 0) == list(range(1, 41)), job.words()
    assert [one["rank"] for notice in job.notices() for one in notice["ranks"]] == [1]
    assert job.verdicts() == []
    assert not (job.run_dir / "ledger.jsonl").exists(), job.words()


def test_storm_is_ended_with_its_history(begin: Begin):
    job = begin("kill", "--on", "process-crash=report,restart:1", restarts=9, ALWAYS="1")
    assert job.wait_exit(PATIENCE) == 85, job.words()
    told = [act["act"] for act in acts(job)]
    assert [act for act in told if act not in ("dump", "report")] == ["restart", "stop"]
    assert "process-crash again; restarted once without progress" in job.stderr.read_text()


def test_launcher_without_restarts_ends_for_the_scheduler(begin: Begin):
    job = begin("stop", restarts=0)
    assert job.wait_exit(PATIENCE) == 80, job.words()
    summary = " ".join(job.stderr.read_text().split())
    assert re.search(r"Root Cause.*rank : 1 .*traceback : Rank 1 is stopped", summary), job.words()


def test_ctrl_c_in_the_middle_leaves_nothing(begin: Begin):
    job = begin("stop", "--on", "process-stopped=report,wait:60s,restart")
    job.wait_verdict(PATIENCE)
    job.interrupt()
    before = time.monotonic()
    assert job.wait_exit(30) not in (0, 80), job.words()
    assert time.monotonic() - before < 25  # torchrun alone would wait 30 s for the stopped rank
    assert job.wait_gone(5) == set()
    assert "restart" not in [act["act"] for act in acts(job)]


def test_bad_policy_is_refused_before_the_job_starts(begin: Begin):
    job = begin("", "--on", "process-crash=restrt")
    assert job.wait_exit(60) == 2
    assert job.stdout.read_text() == ""
    first = job.stderr.read_text().splitlines()[0]
    assert first == "unstuck: process-crash: there is no action `restrt`; did you mean `restart`?"
