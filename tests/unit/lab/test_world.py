"""What a fault can affect: the right process of a rank, its launcher, and only what is there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unstuck.errors import JobOverdueError, LabError
from unstuck.lab.world import Watched, World

# A rank with a child, as a data loader is, that inherits its environment.
RANK = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=sys.stdin)
print(child.pid, flush=True)
child.wait()
"""


class Job:
    def __init__(self, *pids: int) -> None:
        self._pids = set(pids)

    def pids(self) -> set[int]:
        return self._pids


@pytest.fixture
def rank() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a process with RANK=3 and give its child's pid as well."""
    process = subprocess.Popen(
        [sys.executable, "-c", RANK],
        env={**os.environ, "RANK": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process, int(process.stdout.readline())
    if process.returncode is None:
        process.communicate("\n")


def world(*pids: int) -> World:
    job: Any = Job(*pids)
    return World(Path(), (job,))


def test_a_rank_is_its_process_and_not_its_children(rank: tuple[Any, int]) -> None:
    process, child = rank
    found = world(process.pid, child, os.getpid())
    assert found.ranks() == {3: process.pid}
    assert found.pid(3) == process.pid
    assert found.launcher() == os.getpid()


def test_a_rank_that_is_not_there_is_an_error() -> None:
    with pytest.raises(JobOverdueError, match="rank 3 has no process"):
        world(os.getpid()).pid(3)
    with pytest.raises(JobOverdueError, match="host 0 has no ranks"):
        world().launcher()


def test_a_fault_that_needs_hosts_says_so() -> None:
    with pytest.raises(LabError, match="needs hosts"):
        world().need_hosts()


def test_the_end_of_a_process_is_noticed(rank: tuple[Any, int]) -> None:
    process, _ = rank
    watched = Watched(process.pid)
    assert not watched.ended()
    process.communicate("\n")
    assert watched.ended()
    watched.close()
    watched.close()
    assert watched.ended()
