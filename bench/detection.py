"""How fast and how rightly each hang is named: one line per program, measured on real jobs.

Each run starts a program of `tests/programs` under `unstuck run`, notes the moment the
fault begins, waits for the verdict on disk and ends the job. Run it with the Python that
has unstuck and torch installed:

    python bench/detection.py --repeat 5
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "system"))

from expectations import FAULT_RANK, Expectation, load
from hosts import Hosts
from watched import TORCHRUN, Job, two_node_torchrun

VERDICT_LIMIT = 30.0
START_LIMIT = 90.0
HEALTHY_LIMIT = 180.0


@dataclass(frozen=True)
class Run:
    """What one run gave; `seconds` counts from the onset to the verdict."""

    program: str
    cause: str | None = None
    culprits: tuple[int, ...] = ()
    seconds: float | None = None
    exit_code: int | None = None
    trouble: str = ""

    def cause_right(self, expected: Expectation) -> bool:
        """Say whether the cause is one of those that are right; for a healthy job, none."""
        if not expected.causes:
            return self.cause is None and self.exit_code == 0
        return self.cause in expected.causes

    def culprit_right(self, expected: Expectation) -> bool:
        """Say whether exactly the ranks at fault were named."""
        return self.culprits == ((FAULT_RANK,) if expected.causes else ())

    def innocents(self, expected: Expectation) -> int:
        """Count the ranks that were accused without being at fault."""
        return len(set(self.culprits) - ({FAULT_RANK} if expected.causes else set()))


def start(expected: Expectation, folder: Path, nodes: int, resources: ExitStack) -> list[Job]:
    """Start the program on four ranks: on this host, or two each on two hosts."""
    script = str(expected.path)
    if nodes == 1:
        jobs = [Job(folder, (*TORCHRUN, script))]
    else:
        hosts = resources.enter_context(Hosts(nodes))
        hub = ("--hub", f"{hosts.address(0)}:29600")
        jobs: list[Job] = []
        for i in range(nodes):
            command = (*two_node_torchrun(hosts.address(0), hosts.address(i)), script)
            wrap = partial(hosts.command, i)
            jobs.append(Job(folder / f"node{i}", command, options=hub, wrap=wrap))
    for job in jobs:
        resources.callback(job.kill)
    return jobs


def observe(expected: Expectation, nodes: int) -> Run:
    """Run the program once and give what unstuck said of it."""
    with ExitStack() as resources:
        folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="unstuck-bench-"))
        jobs = start(expected, Path(folder), nodes, resources)
        try:
            if expected.causes:
                return observe_fault(expected, jobs)
            return observe_health(expected, jobs)
        finally:
            end(jobs)


def observe_fault(expected: Expectation, jobs: list[Job]) -> Run:
    """Wait for the fault and then for the verdict."""
    onset = wait(lambda: first(job.onset() for job in jobs), jobs, START_LIMIT)
    if onset is None:
        return Run(expected.program, trouble="the fault never began")
    verdict = wait(lambda: first(v for job in jobs for v in job.verdicts()), jobs, VERDICT_LIMIT)
    if verdict is None:
        return Run(expected.program, trouble=f"no verdict within {VERDICT_LIMIT:g} s")
    return read(expected, verdict, onset)


def read(expected: Expectation, verdict: dict[str, Any], onset: float) -> Run:
    """Take from the verdict what is measured here."""
    made_at = datetime.fromisoformat(verdict["made_at"]).timestamp()
    ranks = tuple(sorted(culprit["rank"] for culprit in verdict["culprits"]))
    return Run(expected.program, verdict["cause"], ranks, made_at - onset)


def observe_health(expected: Expectation, jobs: list[Job]) -> Run:
    """Wait for the job's own end; whatever was said before is wrong."""
    try:
        exit_code = max(abs(job.wait_exit(HEALTHY_LIMIT)) for job in jobs)
    except AssertionError:
        return Run(expected.program, trouble=f"not at its end after {HEALTHY_LIMIT:g} s")
    verdict = first(v for job in jobs for v in job.verdicts())
    if verdict is None:
        return Run(expected.program, exit_code=exit_code)
    ranks = tuple(sorted(culprit["rank"] for culprit in verdict["culprits"]))
    return Run(expected.program, verdict["cause"], ranks, exit_code=exit_code)


def end(jobs: list[Job]) -> None:
    """End the job as Ctrl-C does; what does not go is killed by the caller."""
    for job in jobs:
        job.interrupt()
    deadline = time.monotonic() + 15
    while any(job.pids() for job in jobs) and time.monotonic() < deadline:
        time.sleep(0.2)


def first(values: Any) -> Any:
    """Give the first value that is not None."""
    return next((value for value in values if value is not None), None)


def wait(look: Any, jobs: list[Job], limit: float) -> Any:
    """Look until there is something, the job has ended, or the limit is reached."""
    deadline = time.monotonic() + limit
    while True:
        over = time.monotonic() > deadline or all(job.process.poll() is not None for job in jobs)
        found = look()
        if found is not None or over:
            return found
        time.sleep(0.05)


@dataclass(frozen=True)
class Row:
    """All runs of one program, summed up."""

    program: str
    expected: str
    cause: str
    culprit: str
    innocents: int
    seconds: str
    met: bool


def spread(times: Sequence[float]) -> str:
    """Give the smallest, the middle and the largest time."""
    if not times:
        return "-"
    return f"{min(times):.1f} / {statistics.median(times):.1f} / {max(times):.1f}"


def summarize(expected: Expectation, runs: Sequence[Run]) -> Row:
    """Sum the runs of one program up."""
    causes = sum(run.cause_right(expected) for run in runs)
    culprits = sum(run.culprit_right(expected) for run in runs)
    times = [run.seconds for run in runs if run.seconds is not None]
    quick = not expected.causes or (len(times) == len(runs) and max(times) <= expected.goal)
    return Row(
        program=expected.program,
        expected=" or ".join(expected.causes) or "no verdict, exit code 0",
        cause=f"{causes}/{len(runs)}",
        culprit=f"{culprits}/{len(runs)}" if expected.causes else "-",
        innocents=sum(run.innocents(expected) for run in runs),
        seconds=spread(times),
        met=quick and causes == culprits == len(runs),
    )


def table(rows: Sequence[Row], goals: Sequence[float | None], title: str) -> Table:
    """Lay the rows out for people."""
    shown = Table(title=title)
    for heading in ("program", "right cause", "cause named", "culprit named", "innocents accused"):
        shown.add_column(heading)
    shown.add_column("seconds: min / median / max", justify="right")
    shown.add_column("goal")
    for row, goal in zip(rows, goals, strict=True):
        target = f"{goal:g} s: " if goal else ""
        cells = (row.program, row.expected, row.cause, row.culprit, str(row.innocents), row.seconds)
        shown.add_row(*cells, target + ("met" if row.met else "missed"))
    return shown


def measure(expected: Expectation, repeat: int, nodes: int) -> list[Run]:
    """Run one program `repeat` times and say on stderr how each went."""
    runs: list[Run] = []
    for number in range(1, repeat + 1):
        run = observe(expected, nodes)
        runs.append(run)
        right = run.cause_right(expected) and run.culprit_right(expected)
        took = "" if run.seconds is None else f" after {run.seconds:.2f} s"
        said = run.trouble or f"{run.cause or 'no verdict'} {list(run.culprits)}{took}"
        mark = "right" if right else "WRONG"
        print(f"{expected.program} {number}/{repeat}: {said}: {mark}", file=sys.stderr, flush=True)
    return runs


@click.command()
@click.option("--repeat", default=5, show_default=True, help="Runs of each program.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this program; may be repeated.")
@click.option("--nodes", type=click.IntRange(1, 2), default=1, help="Hosts (network namespaces).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(*, repeat: int, only: tuple[str, ...], nodes: int, as_json: bool) -> None:
    """Measure the time from the onset of a fault to the verdict, and whether it is right."""
    known = load()
    unknown = set(only) - {each.program for each in known}
    if unknown:
        raise click.UsageError(f"no such program: {', '.join(sorted(unknown))}")
    chosen = [each for each in known if not only or each.program in only]
    load_before = os.getloadavg()[0]
    runs = {each.program: measure(each, repeat, nodes) for each in chosen}
    rows = [summarize(each, runs[each.program]) for each in chosen]
    machine = f"{os.cpu_count()} cores, load {load_before:.1f} before, 4 ranks on {nodes} host(s)"
    if as_json:
        all_runs = [asdict(run) for each in runs.values() for run in each]
        report = {"machine": machine, "rows": [asdict(row) for row in rows], "runs": all_runs}
        print(json.dumps(report, indent=2))
    else:
        goals = [each.goal if each.causes else None for each in chosen]
        Console(width=None if sys.stdout.isatty() else 160).print(table(rows, goals, machine))
    sys.exit(0 if all(row.met for row in rows) else 1)


if __name__ == "__main__":
    main()
