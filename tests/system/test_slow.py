"""Slow, not stuck: real jobs with one slow rank, a starved one, and those that only look so."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from expectations import FAULT_RANK, PROGRAMS
from unstuck.errors import LabError
from unstuck.lab.cgroups import Cgroup
from unstuck.lab.job import Job

pytestmark = pytest.mark.system

Begin = Callable[..., Job]
DEADLINE = 60


@contextmanager
def hogs(count: int, cores: set[int]) -> Generator[list[int]]:
    """Let processes outside the job use all they can get of these cores."""
    script = f"import os; os.sched_setaffinity(0, {cores})\nwhile True: pass"
    started = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(count)]
    try:
        yield [each.pid for each in started]
    finally:
        for each in started:
            each.kill()
            each.wait()


@contextmanager
def limited_group(share: float) -> Generator[Path]:
    """Make a control group that may use this share of a core; skip the test where none can be."""
    try:
        made = Cgroup("cpu")
    except LabError as error:
        pytest.skip(f"no cpu limit can be set here: {error}")
    with made as group:
        quota = int(share * 100_000)
        if group.version == 1:
            group.write("cpu.cfs_quota_us", str(quota))
        else:
            group.write("cpu.max", f"{quota} 100000")
        yield group.path


def ranks(verdict: dict[str, Any]) -> list[int]:
    return [culprit["rank"] for culprit in verdict["culprits"]]


@pytest.mark.alone
def test_straggler_that_computes_is_named_with_its_line(job: Begin) -> None:
    running = job("slow_rank", env={"HOW": "burn"})
    running.wait_onset()
    _is_named_with_its_line(running)


def _is_named_with_its_line(running: Job) -> None:
    verdict = running.wait_verdict(DEADLINE)
    assert (verdict["cause"], ranks(verdict)) == ("straggler", [FAULT_RANK]), running.words()
    assert verdict["slowdown"] > 1.2
    assert verdict["victims"] == [0, 1, 3]
    program = (PROGRAMS / "slow_rank.py").read_text().splitlines()
    assert program[verdict["culprits"][0]["line"] - 1].strip().startswith(("time.sleep", "while"))


def test_straggler_that_sleeps_is_named_with_its_line_and_so_is_the_end_of_it(job: Begin) -> None:
    running = job("slow_rank", env={"HOW": "sleep", "UNTIL": "120"})
    running.wait_onset()
    _is_named_with_its_line(running)
    over = "unstuck: rank 2 is as fast as the others again"
    running._until(lambda: over in running.stderr.read_text() or None, DEADLINE, "no end of it")

    assert [each["cause"] for each in running.verdicts()] == ["straggler"]
    assert "moves again" not in running.stderr.read_text()


@pytest.mark.alone
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_rank_whose_core_is_taken_names_who_takes_it(job: Begin) -> None:
    running = job("slow_rank", env={"HOW": "nothing", "PIN": "1", "CPU": "0.05"})
    running.wait_onset()
    with hogs(3, {1}) as pids:
        verdict = running.wait_verdict(DEADLINE)

    assert (verdict["cause"], ranks(verdict)) == ("resource-contention", [FAULT_RANK]), (
        running.words()
    )
    told = " ".join(item["text"] for item in verdict["evidence"])
    assert any(f"pid {pid}" in told for pid in pids), told


@pytest.mark.alone
def test_rank_under_a_cpu_limit(job: Begin) -> None:
    with limited_group(0.05) as group:
        running = job("slow_rank", env={"HOW": "limit", "LIMITED_GROUP": str(group)})
        running.wait_onset()
        verdict = running.wait_verdict(DEADLINE)
        running.kill()

    assert (verdict["cause"], ranks(verdict)) == ("resource-contention", [FAULT_RANK])
    assert "CPU limit" in verdict["summary"]


@pytest.mark.parametrize(
    ("how", "beside"),
    [
        ("once", contextlib.nullcontext()),
        ("save", contextlib.nullcontext()),
        pytest.param("nothing", hogs(3, set(os.sched_getaffinity(0))), marks=pytest.mark.alone),
    ],
)
def test_healthy_job_is_left_in_peace(
    job: Begin, how: str, beside: AbstractContextManager[object]
) -> None:
    with beside:
        running = job("slow_rank", env={"HOW": how, "STEPS": "220"})
        assert running.wait_exit(150) == 0, running.words()
    assert running.verdicts() == [], running.words()
