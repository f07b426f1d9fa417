"""Every way to hang or die: the right rank, the right cause, the line, and nobody innocent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expectations import FAULT_RANK, Expectation, cases, faulty
from unstuck.errors import JobOverdueError
from unstuck.lab.job import Job

pytestmark = pytest.mark.system

DEADLINE = 20


@pytest.mark.parametrize("expected", cases(faulty()))
def test_the_verdict_names_rank_cause_and_line(
    job: Callable[..., Job], expected: Expectation
) -> None:
    size = ("--nproc-per-node", str(expected.ranks))
    running = job(expected.program, *size, *expected.torchrun)
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


@pytest.mark.parametrize("rank", [0, 3])
def test_any_rank_can_be_the_culprit(job: Callable[..., Job], rank: int) -> None:
    running = job("sendrecv", env={"FAULT_RANK": str(rank)})
    running.wait_onset()
    verdict = running.wait_verdict(DEADLINE)

    assert [rank] == _ranks(verdict), _story(verdict, running)


def test_the_block_on_stderr_tells_the_same(job: Callable[..., Job]) -> None:
    running = job("lock")
    running.wait_onset()
    verdict = running.wait_verdict(DEADLINE)
    running.interrupt()
    running.wait_exit(15)

    said = running.stderr.read_text()
    assert f"rank {FAULT_RANK}" in said.lower()
    assert verdict["cause"] in said
    assert f"lock.py:{verdict['culprits'][0]['line']}" in said


def test_one_stall_is_one_incident(job: Callable[..., Job]) -> None:
    running = job("allreduce_loop")
    running.wait_onset()
    running.wait_verdict(DEADLINE)
    with pytest.raises(JobOverdueError, match="still running"):
        running.wait_exit(6)

    assert len(running.verdicts()) == 1


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
