"""Every way to hang or die: the right rank, the right cause, the line, and nobody innocent."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expectations import FAULT_RANK, Expectation, cases, faulty, load
from jobs import end_by_ctrl_c
from unstuck.errors import JobOverdueError
from unstuck.lab.job import UNSTUCK, Job

pytestmark = pytest.mark.system

DEADLINE = 20


def one_incident(job: Job, _: dict[str, Any]) -> None:
    """One stall is one incident, however long it lasts."""
    with pytest.raises(JobOverdueError, match="still running"):
        job.wait_exit(6)
    assert len(job.verdicts()) == 1
    end_by_ctrl_c(job, everybody=True)


def block_on_stderr(job: Job, verdict: dict[str, Any]) -> None:
    """People read on stderr what the verdict says."""
    job.interrupt()
    job.wait_exit(15)
    said = job.stderr.read_text()
    assert f"rank {FAULT_RANK}" in said.lower()
    assert verdict["cause"] in said
    assert f"lock.py:{verdict['culprits'][0]['line']}" in said


def same_from_the_bundle(job: Job, verdict: dict[str, Any]) -> None:
    """An incident is judged again from its bundle, elsewhere and without torch, with one answer."""
    elsewhere = job.run_dir.parent / "elsewhere"
    shutil.copytree(job.run_dir / "incident-1", elsewhere)
    hidden = job.run_dir.parent / "no-torch"
    hidden.mkdir()
    (hidden / "torch.py").write_text("raise ImportError('torch is hidden by this test')\n")
    path = os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", "")])
    replay = subprocess.run(
        [*UNSTUCK, "diagnose", elsewhere, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (replay.returncode, replay.stderr) == (1, "")
    assert json.loads(replay.stdout)["verdict"] == verdict


# What else is asked of a job once its verdict is there: starting one is what takes long.
AFTERWARDS: dict[str, Callable[[Job, dict[str, Any]], None]] = {
    "subgroup": one_incident,
    "ddp_sleep": same_from_the_bundle,
    "lock": block_on_stderr,
    "sigstop": lambda job, _: end_by_ctrl_c(job, everybody=False),
    "sigterm_pending": lambda job, _: end_by_ctrl_c(job, everybody=False),
}


@pytest.mark.parametrize("expected", cases(faulty()))
def test_the_verdict_names_rank_cause_and_line(
    job: Callable[..., Job], expected: Expectation
) -> None:
    running = job(
        expected.program, *expected.torchrun, ranks=expected.fewest, options=expected.options
    )
    running.wait_onset()
    verdict = running.wait_verdict(max(DEADLINE, 2 * expected.goal))

    assert verdict["cause"] in expected.causes, _story(verdict, running)
    named = set(_ranks(verdict))
    assert {*expected.culprits} <= named, _story(verdict, running)
    assert named <= {*expected.culprits, *expected.beside}, _story(verdict, running)
    assert named.isdisjoint(verdict["victims"])
    for culprit in verdict["culprits"]:
        if culprit["rank"] in expected.culprits:
            _check_place(culprit, expected)
    if expected.program in AFTERWARDS:
        AFTERWARDS[expected.program](running, verdict)


@pytest.mark.parametrize("rank", [0, 1])  # the last of three is that of the tests above
def test_any_rank_can_be_the_culprit(job: Callable[..., Job], rank: int) -> None:
    (expected,) = (each for each in faulty() if each.program == "sendrecv")
    told = {"FAULT_RANK": str(rank)}
    running = job(expected.program, ranks=3, env=told, options=expected.options)
    running.wait_onset()
    verdict = running.wait_verdict(DEADLINE)

    assert verdict["cause"] in expected.causes
    assert [rank] == _ranks(verdict), _story(verdict, running)
    _check_place(verdict["culprits"][0], expected)


def test_a_rank_that_works_on_is_noticed_and_not_judged(job: Callable[..., Job]) -> None:
    (expected,) = (each for each in load() if each.program == "gil_regex")
    running = job(expected.program, ranks=3)
    onset = running.wait_onset()
    notice = running.wait_notice(DEADLINE)

    (late,) = notice["ranks"]
    assert (late["rank"], late["line"]) == (FAULT_RANK, expected.fault_lines().pop())
    assert notice["waiting"] == [0, 1]
    assert notice["made_at"] - onset < DEADLINE
    running.interrupt()
    running.wait_exit(20)
    assert running.verdicts() == []
    assert f"unstuck: rank {FAULT_RANK} " in running.stderr.read_text()


def _ranks(verdict: dict[str, Any]) -> list[int]:
    return sorted(culprit["rank"] for culprit in verdict["culprits"])


def _check_place(culprit: dict[str, Any], expected: Expectation) -> None:
    if expected.place == "nothing":
        return
    assert Path(culprit["file"]).name == expected.path.name, culprit
    if expected.place == "line":
        assert culprit["line"] in expected.fault_lines(), culprit


def _story(verdict: dict[str, Any], job: Job) -> str:
    return f"{verdict}\n{job.words()}"
