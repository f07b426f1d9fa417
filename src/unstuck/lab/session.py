"""Several scenarios, several times each: one job at a time, or some side by side."""

import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Protocol

from unstuck._version import __version__
from unstuck.lab.crew import Task, make_abreast
from unstuck.lab.interrupts import Interrupts
from unstuck.lab.results import Results
from unstuck.lab.run import Run
from unstuck.lab.runner import Say, observe
from unstuck.lab.scenario import Scenario

Machine = dict[str, str | int | float]


class Audience(Protocol):
    """Told how it goes; `progress.Progress` shows it to people."""

    def begin(self, scenario: Scenario, number: int) -> Say:
        """Hear that a run begins; give what is to be told what this run waits for."""
        ...

    def end(self, scenario: Scenario, run: Run) -> None:
        """Hear what a run gave."""
        ...


def missing(scenarios: Sequence[Scenario], repeat: int, results: Results) -> list[Task]:
    """Give the runs that the results do not have, every scenario once before any a second time.

    Example:
        >>> missing([], 5, Results())
        []
    """
    return [
        (scenario, number)
        for number in range(1, repeat + 1)
        for scenario in scenarios
        if not results.has(scenario.name, number)
    ]


def spread(tasks: Sequence[Task]) -> list[Task]:
    """Spread the healthy jobs evenly over the others.

    They take longest and mostly sleep, while a job with a fault spends its time on its start:
    side by side they use the cores best, and no long one is left for the end.
    """
    healthy = [task for task in tasks if task[0].kind == "healthy"]
    others = [task for task in tasks if task[0].kind != "healthy"]
    placed = [(i / len(some), task) for some in (healthy, others) for i, task in enumerate(some)]
    return [task for _, task in sorted(placed, key=lambda each: each[0])]


def run_all(
    tasks: Sequence[Task],
    audience: Audience,
    results: Results,
    keep: Path | None = None,
    jobs: int = 1,
) -> None:
    """Make all runs, `jobs` at a time; those of scenarios that must be alone come last.

    Jobs side by side slow each other: their times are rather too long than too short.
    """

    def end(scenario: Scenario, run: Run) -> None:
        results.add(run)
        audience.end(scenario, run)

    def due(some: Sequence[Task]) -> Iterator[Task]:
        # One that cannot run here is tried once: the results have it from then on.
        return (task for task in some if not results.has(task[0].name, task[1]))

    abreast = [task for task in tasks if jobs > 1 and not task[0].alone]
    if abreast:
        make_abreast(due(spread(abreast)), min(jobs, len(abreast)), audience.begin, end, keep)
    with Interrupts() as interrupts:
        for scenario, number in due([task for task in tasks if jobs == 1 or task[0].alone]):
            say = audience.begin(scenario, number)
            end(scenario, observe(scenario, number, interrupts, say, keep))


def run_for(
    hours: float,
    scenarios: Sequence[Scenario],
    audience: Audience,
    results: Results,
    keep: Path | None = None,
    jobs: int = 1,
) -> None:
    """Run healthy jobs, `jobs` at a time, in turn until so many hours of them were watched.

    Those that run when the hours are full are still waited for. A job that fails is not run again.
    """
    failed: set[str] = set()

    def end(scenario: Scenario, run: Run) -> None:
        results.add(run)
        audience.end(scenario, run)
        if run.trouble or run.exit_code:
            failed.add(scenario.name)

    def rounds() -> Iterator[Task]:
        for number in count(1):
            for scenario in (each for each in scenarios if each.name not in failed):
                if watched_hours(scenarios, results.runs) >= hours:
                    return
                if not results.has(scenario.name, number):
                    yield scenario, number
            if len(failed) == len(scenarios):
                return

    make_abreast(rounds(), jobs, audience.begin, end, keep)


def watched_hours(scenarios: Sequence[Scenario], runs: Sequence[Run]) -> float:
    """Add up for how long these jobs were watched.

    Example:
        >>> watched_hours(load_world("python"), [Run("pipelining", 1, watched=1800)])
        0.5
    """
    names = {each.name for each in scenarios}
    return sum(run.watched for run in runs if run.scenario in names and not run.trouble) / 3600


def machine() -> Machine:
    """Say on what will be measured; `load` is that of before."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "none"
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "torch": torch,
        "unstuck": __version__,
    }
