"""What being watched costs: the same job with and without `unstuck run`, interleaved.

Both sides run on the same machine within the same minutes, in the order A B B A A B …, so
that a drift of the machine does not favour one of them:

    python bench/overhead.py --pairs 5 --seconds 12
    python bench/overhead.py --control        both sides without: what the machine's noise gives

Steps per second are what the user feels; whatever else the machine does is in them. The CPU
time that all ranks spend on a step holds what the probe does inside the ranks, and not what
the agent and the hub do beside them. Contention moves both: on a busy machine two unwatched
runs differ by tens of per cent, so a ratio means nothing without the control beside it.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

BIN = Path(sys.executable).parent
PROGRAM = Path(__file__).parent / "ddp_steps.py"
TORCHRUN = (str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "4", str(PROGRAM))
FEWEST_FOR_INTERVAL = 5


@dataclass(frozen=True)
class Rate:
    """What one run measured of itself."""

    per_second: float
    cpu_ms: float
    """CPU time of all four ranks together for one step."""


@dataclass(frozen=True)
class Pair:
    """One run of each side."""

    without: Rate
    watched: Rate
    load: float

    @property
    def speed(self) -> float:
        """Steps per second, watched over unwatched: below 1 is a cost."""
        return self.watched.per_second / self.without.per_second

    @property
    def cpu(self) -> float:
        """CPU time a step, watched over unwatched: above 1 is a cost."""
        return self.watched.cpu_ms / self.without.cpu_ms


def run_once(*, watched: bool, mode: str, seconds: float) -> Rate:
    """Run the job once and give what it measured."""
    with tempfile.TemporaryDirectory(prefix="unstuck-bench-") as name:
        folder = Path(name)
        watcher = (str(BIN / "unstuck"), "run", "--run-dir", str(folder / "run"))
        own = {"RESULT": str(folder / "result"), "MODE": mode, "SECONDS": str(seconds)}
        argv = (*watcher, *TORCHRUN) if watched else TORCHRUN
        with (folder / "output").open("w+") as output:
            env = {**os.environ, "OMP_NUM_THREADS": "1", **own}
            done = subprocess.run(argv, env=env, stdout=output, stderr=output, check=False)
            output.seek(0)
            if done.returncode != 0:
                raise click.ClickException(f"the job failed:\n{output.read()[-3000:]}")
        if any((folder / "run").glob("incident-*")):
            print("note: unstuck raised an incident in this run", file=sys.stderr)
        return Rate(**json.loads((folder / "result").read_text()))


def measure_pair(number: int, *, control: bool, mode: str, seconds: float) -> Pair:
    """Measure one pair, every second one in reverse order."""
    order = (False, True) if number % 2 == 0 else (True, False)
    load = os.getloadavg()[0]
    found = {
        second: run_once(watched=second and not control, mode=mode, seconds=seconds)
        for second in order
    }
    pair = Pair(found[False], found[True], load)
    said = f"pair {number + 1}: speed {pair.speed:.4f}, CPU {pair.cpu:.4f}, load {load:.1f}"
    print(said, file=sys.stderr, flush=True)
    return pair


def interval(values: Sequence[float], rounds: int = 5000) -> tuple[float, float] | None:
    """Give the 95 % bootstrap interval of the median; None where there are too few values."""
    if len(values) < FEWEST_FOR_INTERVAL:
        return None
    chance = random.Random(0)  # noqa: S311 - a fixed seed is the point
    medians = sorted(
        statistics.median(chance.choices(values, k=len(values))) for _ in range(rounds)
    )
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def spread(values: Sequence[float]) -> str:
    """Sum a ratio up in words."""
    text = f"median {statistics.median(values):.4f}, min {min(values):.4f}, max {max(values):.4f}"
    bounds = interval(values)
    if bounds is None:
        return f"{text}; too few pairs for an interval"
    return f"{text}; 95 % interval of the median {bounds[0]:.4f} to {bounds[1]:.4f}"


def table(pairs: Sequence[Pair], title: str) -> Table:
    """Lay the pairs out for people."""
    shown = Table(title=title)
    for heading in ("pair", "load", "steps/s without", "with", "ratio"):
        shown.add_column(heading, justify="right")
    for heading in ("CPU ms a step without", "with", "ratio"):
        shown.add_column(heading, justify="right")
    for number, pair in enumerate(pairs, 1):
        without, watched = pair.without, pair.watched
        speed = (f"{without.per_second:.2f}", f"{watched.per_second:.2f}", f"{pair.speed:.4f}")
        cpu = (f"{without.cpu_ms:.3f}", f"{watched.cpu_ms:.3f}", f"{pair.cpu:.4f}")
        shown.add_row(str(number), f"{pair.load:.1f}", *speed, *cpu)
    return shown


@click.command()
@click.option("--pairs", default=5, show_default=True, help="Runs of each side.")
@click.option("--seconds", default=12.0, show_default=True, help="Measured time of each run.")
@click.option("--mode", type=click.Choice(["ddp", "collectives"]), default="ddp")
@click.option("--control", is_flag=True, help="Watch neither side: shows the machine's noise.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(*, pairs: int, seconds: float, mode: str, control: bool, as_json: bool) -> None:
    """Compare a 4-rank job with and without `unstuck run`."""
    measured = [
        measure_pair(number, control=control, mode=mode, seconds=seconds) for number in range(pairs)
    ]
    speeds, cpus = [each.speed for each in measured], [each.cpu for each in measured]
    sides = "control: neither side watched" if control else "with and without unstuck"
    title = f"{mode}, {sides}, 4 ranks, {os.cpu_count()} cores"
    if as_json:
        report = {"title": title, "pairs": [asdict(each) for each in measured]}
        print(json.dumps({**report, "speed": spread(speeds), "cpu": spread(cpus)}, indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(measured, title))
    console.print(f"speed, with / without: {spread(speeds)}")
    console.print(f"CPU a step, with / without: {spread(cpus)}")


if __name__ == "__main__":
    main()
