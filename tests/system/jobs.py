"""Real jobs under `unstuck run`, for one test or for several, and nothing of them left."""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unstuck.lab.job import Job
from unstuck.lab.owner import MARKER

StartJob = Callable[..., Job]


@contextmanager
def jobs_in(folder: Path) -> Generator[StartJob]:
    """Start any command under `unstuck run`; at the end no process of it may be left."""
    started: list[Job] = []

    def begin(*command: str, **how: Any) -> Job:
        started.append(Job(folder / f"job{len(started)}", command, **how))
        return started[-1]

    left: dict[int, set[int]] = {}
    try:
        yield begin
    finally:
        left = {each.process.pid: _end(each) for each in started}
    assert not any(left.values()), f"jobs that had ended left processes behind: {left}"


def end_by_ctrl_c(job: Job, *, everybody: bool) -> None:
    """Send Ctrl-C as a terminal does, to everybody, or as `kill -INT` does, to unstuck alone."""
    job.interrupt(everybody=everybody)
    before = time.monotonic()
    # Well below the 30 s that torchrun would wait; Python and torch need 10 of them to end on a
    # machine with nine processes for each core.
    assert job.wait_exit(20) != 0
    left = job.wait_gone(20 - (time.monotonic() - before))
    assert not left, f"still there after Ctrl-C: {left}"


def unwatched() -> dict[str, str]:
    """Return an environment in which nothing tells a job of unstuck, but pytest's keeper."""
    kept = (name for name in os.environ if name == MARKER or not name.startswith("UNSTUCK_"))
    return {**{name: os.environ[name] for name in kept}, "OMP_NUM_THREADS": "1"}


def _end(job: Job) -> set[int]:
    ended = job.process.poll() is not None
    left = job.wait_gone(5) if ended else set[int]()
    job.kill()
    return left
