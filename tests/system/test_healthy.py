"""Healthy, slow and ending jobs: no verdict, no noise, the job's own exit code."""

from collections.abc import Callable

import pytest

from expectations import Expectation, cases, healthy
from unstuck.lab.job import Job

pytestmark = pytest.mark.system


@pytest.mark.parametrize("expected", cases(healthy()))
def test_a_job_without_a_stall_gets_no_verdict(
    job: Callable[..., Job], expected: Expectation
) -> None:
    running = job(expected.program, env={"STEPS": "40"})

    assert running.wait_exit(90) == 0, running.words()
    assert running.verdicts() == []
    assert "trained" in running.stdout.read_text() or expected.program == "rank_by_rank"


def test_four_endings_are_all_seen_on_stdout(job: Callable[..., Job]) -> None:
    running = job("rank_by_rank", env={"APART": "0.5"})
    assert running.wait_exit(60) == 0, running.words()

    lines = [line for line in running.stdout.read_text().splitlines() if "shard" in line]
    assert sorted(lines) == [f"rank {rank} wrote its shard" for rank in range(4)]
