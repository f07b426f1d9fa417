"""Runs in parallel, each in a process that cleans up after itself when it is terminated."""

import contextlib
import ctypes
import multiprocessing
import signal
import time
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from unstuck.errors import LabError
from unstuck.lab.interrupts import Interrupts
from unstuck.lab.run import Run
from unstuck.lab.runner import Say, observe
from unstuck.lab.scenario import Scenario

Task = tuple[Scenario, int]
_PR_SET_PDEATHSIG = 1
_END_LIMIT = 60.0
"""Seconds for a worker to clean up; 15 of them are for the job it ends."""


def make_abreast(
    tasks: Iterator[Task],
    jobs: int,
    begin: Callable[[Scenario, int], Say],
    end: Callable[[Scenario, Run], None],
    keep: Path | None = None,
) -> None:
    """Make runs, `jobs` at a time, and call back when each begins and ends.

    Workers are processes, not threads, so that a signal interrupts each in its own run.
    """
    with Interrupts() as interrupts, _crew(jobs, keep, interrupts) as idle:
        busy: dict[Connection, tuple[Scenario, Say]] = {}
        while True:
            while idle and (task := next(tasks, None)) is not None:
                worker = idle.pop()
                worker.send(task)
                busy[worker] = task[0], begin(*task)
            if not busy:
                return
            for worker in _ready(busy):
                scenario, say = busy[worker]
                news = _hear(worker)
                if isinstance(news, str):
                    say(news)
                else:
                    del busy[worker]
                    idle.append(worker)
                    end(scenario, news)


def _ready(busy: dict[Connection, tuple[Scenario, Say]]) -> list[Connection]:
    ready = wait(list(busy))
    return [worker for worker in busy if worker in ready]


def _hear(worker: Connection) -> str | Run:
    try:
        return worker.recv()
    except (EOFError, OSError):
        raise LabError(
            "a worker process of the lab died in the middle of a run",
            hint="the same command with --results continues where it stopped",
        ) from None


@contextlib.contextmanager
def _crew(size: int, keep: Path | None, interrupts: Interrupts) -> Generator[list[Connection]]:
    """Start workers and yield the connections that take tasks; afterwards all have ended."""
    # Spawned: a fork would inherit the locks of the thread that draws the progress bar.
    context = multiprocessing.get_context("spawn")
    workers: list[tuple[BaseProcess, Connection]] = []
    try:
        with interrupts.held():
            for _ in range(size):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, keep), daemon=False)
                process.start()
                theirs.close()
                workers.append((process, ours))
        yield [ours for _, ours in workers]
    finally:
        with interrupts.held():
            _dismiss(workers)


def _dismiss(workers: list[tuple[BaseProcess, Connection]]) -> None:
    for process, ours in workers:
        ours.close()
        process.terminate()
    deadline = time.monotonic() + _END_LIMIT
    for process, _ in workers:
        process.join(max(0.0, deadline - time.monotonic()))
        process.kill()
        process.join()


def _work(tasks: Connection, keep: Path | None) -> None:
    """Make one run after another until the connection is closed."""

    def say(text: str) -> None:
        with contextlib.suppress(OSError):
            tasks.send(text)

    over = contextlib.suppress(EOFError, OSError, KeyboardInterrupt, SystemExit)
    with over, Interrupts() as interrupts:
        # A lab that is killed cannot end its workers: the kernel does it, and each cleans up.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        while True:
            scenario, number = tasks.recv()
            tasks.send(observe(scenario, number, interrupts, say, keep))
