"""Healthy, slow and ending jobs: no verdict, no noise, the job's own exit code."""

from collections.abc import Callable

import pytest

from expectations import Expectation, cases, healthy
from unstuck.lab.job import Job

pytestmark = pytest.mark.system

RANKS = 3


@pytest.mark.parametrize("expected", cases(healthy()))
def test_a_job_without_a_stall_gets_no_verdict(
    job: Callable[..., Job], expected: Expectation
) -> None:
    running = job(expected.program, ranks=RANKS, env={"STEPS": "40"})

    assert running.wait_exit(90) == 0, running.words()
    assert running.verdicts() == []
    said = running.stdout.read_text()
    if expected.program == "rank_by_rank":
        lines = [line for line in said.splitlines() if "shard" in line]
        assert sorted(lines) == [f"rank {rank} wrote its shard" for rank in range(RANKS)]
    else:
        assert "trained" in said
