"""Runs side by side, each made by a process that cleans up after itself when it is ended."""

import contextlib
import multiprocessing
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
_END_LIMIT = 60.0
"""Seconds for a worker to clean up; the job it ends has 15 of them."""


def make_abreast(
    tasks: Iterator[Task],
    jobs: int,
    begin: Callable[[Scenario, int], Say],
    end: Callable[[Scenario, Run], None],
    keep: Path | None = None,
) -> None:
    """Make runs, `jobs` at a time, and tell when each begins and ends.

    Workers are processes, not threads: a signal reaches each in the middle of its own run.
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
            "a process of the lab has ended in the middle of a run",
            hint="the same command with --results goes on where it was",
        ) from None


@contextlib.contextmanager
def _crew(size: int, keep: Path | None, interrupts: Interrupts) -> Generator[list[Connection]]:
    """Give the ends at which workers take tasks; at the end all workers have gone."""
    # Spawned: a fork would take over the thread that draws the progress, and its locks.
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
    """Make one run after the other, until there is nobody to tell."""

    def say(text: str) -> None:
        with contextlib.suppress(OSError):
            tasks.send(text)

    over = contextlib.suppress(EOFError, OSError, KeyboardInterrupt, SystemExit)
    with over, Interrupts() as interrupts:
        while True:
            scenario, number = tasks.recv()
            tasks.send(observe(scenario, number, interrupts, say, keep))
