"""Slow, not stuck: real jobs with one slow rank, a starved one, and those that only look so."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from expectations import FAULT_RANK, PROGRAMS
from unstuck.lab.job import Job

pytestmark = pytest.mark.system

Begin = Callable[..., Job]
DEADLINE = 60
GROUPS = Path("/sys/fs/cgroup")


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
    old = (GROUPS / "cpu").is_dir()
    group = GROUPS / ("cpu" if old else "") / f"unstuck-test-{os.getpid()}"
    try:
        group.mkdir()
        if old:
            (group / "cpu.cfs_quota_us").write_text(str(int(share * 100_000)))
        else:
            (group / "cpu.max").write_text(f"{int(share * 100_000)} 100000")
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no cpu limit can be set here: {error}")
    try:
        yield group
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            os.kill(int(pid), 9)
    deadline = time.monotonic() + 10
    while group.is_dir() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            group.rmdir()
        time.sleep(0.05)


def ranks(verdict: dict[str, Any]) -> list[int]:
    return [culprit["rank"] for culprit in verdict["culprits"]]


@pytest.mark.parametrize("how", ["sleep", pytest.param("burn", marks=pytest.mark.alone)])
def test_straggler_is_named_with_its_line(job: Begin, how: str) -> None:
    running = job("slow_rank", env={"HOW": how})
    running.wait_onset()
    verdict = running.wait_verdict(DEADLINE)

    assert (verdict["cause"], ranks(verdict)) == ("straggler", [FAULT_RANK]), running.words()
    assert verdict["slowdown"] > 1.2
    assert verdict["victims"] == [0, 1, 3]
    program = (PROGRAMS / "slow_rank.py").read_text().splitlines()
    assert program[verdict["culprits"][0]["line"] - 1].strip().startswith(("time.sleep", "while"))


def test_end_of_the_slowness_is_said(job: Begin) -> None:
    running = job("slow_rank", env={"UNTIL": "120", "STEPS": "280"})
    assert running.wait_exit(180) == 0, running.words()

    assert [each["cause"] for each in running.verdicts()] == ["straggler"]
    said = running.stderr.read_text()
    assert "unstuck: rank 2 is as fast as the others again" in said
    assert "moves again" not in said


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
    assert "cpu limit" in verdict["summary"]


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
