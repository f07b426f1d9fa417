"""What being watched costs: the same job with and without `unstuck run`, in short turns.

On a small machine two consecutive runs differ by tens of per cent, whatever is compared. So both
jobs are started once and then alternate: one is frozen (SIGSTOP to all its processes, including the
agent and hub of a watched job) while the other trains for less than a second, and the order changes
from pair to pair, so that other load affects both alike. Two jobs may also differ in their memory
layout, so every round starts new ones.

    python bench/overhead.py
    python bench/overhead.py --control        neither side watched: the remaining noise

Steps per second are what the user notices. CPU time per step is that of the four ranks, including
the probe inside them; what the agent, the hub and `unstuck run` use is printed separately, as a
share of one core.
"""

import contextlib
import json
import os
import random
import signal
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import click
import psutil
from rich.console import Console
from rich.progress import track
from rich.table import Table

BIN = Path(sys.executable).parent
PROGRAM = Path(__file__).parent / "ddp_steps.py"
TORCHRUN = (str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "4", str(PROGRAM))
START_LIMIT = 120.0
SETTLE = 0.15
"""Seconds after a thaw that are not counted, for caches and scheduler to settle."""


@dataclass(frozen=True)
class Reading:
    """The state of one job at one moment."""

    steps: int
    at: float
    """When the last step ended, by the machine's monotonic clock."""
    rank_cpu: float
    watcher_cpu: float


@dataclass(frozen=True)
class Window:
    """What was measured in one turn."""

    per_second: float
    cpu_ms: float
    watchers: float

    @classmethod
    def between(cls, begin: Reading, end: Reading) -> "Window":
        """Compare two readings of the same job."""
        steps, seconds = end.steps - begin.steps, end.at - begin.at
        return cls(
            per_second=steps / seconds,
            cpu_ms=1000 * (end.rank_cpu - begin.rank_cpu) / steps,
            watchers=(end.watcher_cpu - begin.watcher_cpu) / seconds,
        )


@dataclass(frozen=True)
class Pair:
    """One turn of each side, one right after the other."""

    without: Window
    watched: Window


class Side:
    """One of the two jobs; frozen except in its turns."""

    def __init__(self, folder: Path, *, watched: bool, mode: str) -> None:
        folder.mkdir()
        self.run_dir, self._count, self._stop = folder / "run", folder / "count", folder / "stop"
        self._output = folder / "output"
        self._count.write_bytes(bytes(16))
        watcher = (str(BIN / "unstuck"), "run", "--run-dir", str(self.run_dir))
        own = {"COUNT_FILE": str(self._count), "STOP_FILE": str(self._stop), "MODE": mode}
        with self._output.open("wb") as output:
            self._process = psutil.Popen(
                (*watcher, *TORCHRUN) if watched else TORCHRUN,
                env={**os.environ, "OMP_NUM_THREADS": "1", **own},
                stdout=output,
                stderr=output,
            )
        self._members: list[psutil.Process] = []
        self._ranks: list[psutil.Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.touch()
        with contextlib.suppress(psutil.NoSuchProcess):
            self._find()
        self.thaw()
        with contextlib.suppress(psutil.TimeoutExpired):
            self._process.wait(60)
        for member in self._members:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
                print(f"note: process {member.pid} outlived its job", file=sys.stderr)

    def warm_up(self) -> None:
        """Wait for the first steps, then freeze."""
        deadline = time.monotonic() + START_LIMIT
        while self._counted()[0] < 30:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise click.ClickException(f"the job failed:\n{self._output.read_text()[-3000:]}")
            time.sleep(0.1)
        self._find()
        self.freeze()

    def turn(self, seconds: float) -> Window:
        """Let the job train for a while, alone."""
        self.thaw()
        time.sleep(SETTLE)
        begin = self._read()
        time.sleep(seconds)
        end = self._read()
        self.freeze()
        return Window.between(begin, end)

    def freeze(self) -> None:
        """Stop every process of the job."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let every process of the job continue."""
        self._send(signal.SIGCONT)

    def _find(self) -> None:
        self._members = [self._process, *self._process.children(recursive=True)]
        self._ranks = [member for member in self._members if "RANK" in member.environ()]

    def _send(self, number: int) -> None:
        for member in self._members:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(number)

    def _counted(self) -> tuple[int, float]:
        return struct.unpack("<qd", self._count.read_bytes())

    def _read(self) -> Reading:
        watchers = [member for member in self._members if member not in self._ranks]
        return Reading(*self._counted(), cpu_of(self._ranks), cpu_of(watchers))


def cpu_of(processes: Sequence[psutil.Process]) -> float:
    """Add up the CPU seconds of processes, to the microsecond where the kernel counts them."""
    return sum(
        int((task / "schedstat").read_text().split()[0]) / 1e9
        for process in processes
        for task in Path(f"/proc/{process.pid}/task").iterdir()
    )


def interval(values: Sequence[float], rounds: int = 5000) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median."""
    chance = random.Random(0)  # noqa: S311 - a fixed seed is the point
    medians = sorted(
        statistics.median(chance.choices(values, k=len(values))) for _ in range(rounds)
    )
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def row(name: str, without: Sequence[float], watched: Sequence[float]) -> tuple[str, ...]:
    """Summarize one measure: both medians, and the ratio with its spread."""
    ratios = [b / a for a, b in zip(without, watched, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    bounds = interval(ratios)
    return (
        name,
        f"{statistics.median(without):.2f}",
        f"{statistics.median(watched):.2f}",
        f"{statistics.median(ratios):.4f}",
        f"{bounds[0]:.4f} to {bounds[1]:.4f}",
        f"{low:.3f} to {high:.3f}",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
    )


def table(rounds: Sequence[Sequence[Pair]], title: str) -> Table:
    """Render the comparison."""
    shown = Table(title=title)
    shown.add_column("measure")
    for heading in ("without", "with", "ratio (median)", "95 % interval", "quartiles", "extremes"):
        shown.add_column(heading, justify="right")
    for number, pairs in enumerate(rounds, 1):
        shown.add_row(*row(f"round {number}: steps per second", *speeds(pairs)))
    together = [pair for pairs in rounds for pair in pairs]
    cpu = [one.without.cpu_ms for one in together], [one.watched.cpu_ms for one in together]
    shown.add_section()
    shown.add_row(*row("all: steps per second", *speeds(together)))
    shown.add_row(*row("all: CPU ms of the ranks per step", *cpu))
    return shown


def speeds(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    """Return the steps per second of both sides."""
    return [one.without.per_second for one in pairs], [one.watched.per_second for one in pairs]


def measure_round(folder: Path, pairs: int, seconds: float, mode: str, control: bool) -> list[Pair]:
    """Start both jobs, alternate between them, and end them."""
    folder.mkdir()
    with (
        Side(folder / "without", watched=False, mode=mode) as without,
        Side(folder / "watched", watched=not control, mode=mode) as watched,
    ):
        without.warm_up()
        watched.warm_up()
        found = compare({False: without, True: watched}, pairs, seconds)
    if incidents := len(list(watched.run_dir.glob("incident-*"))):
        print(f"note: unstuck raised {incidents} incidents", file=sys.stderr)
    return found


def compare(sides: dict[bool, Side], pairs: int, seconds: float) -> list[Pair]:
    """Alternate between the two jobs."""
    found: list[Pair] = []
    console = Console(stderr=True)
    for number in track(range(pairs), "pairs", console=console, disable=not console.is_terminal):
        order = (False, True) if number % 2 == 0 else (True, False)
        turns = {side: sides[side].turn(seconds) for side in order}
        found.append(Pair(turns[False], turns[True]))
    return found


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How often to start both jobs.")
@click.option("--pairs", default=30, show_default=True, help="Turns of each side in a round.")
@click.option("--seconds", default=0.6, show_default=True, help="Length of a turn.")
@click.option("--mode", type=click.Choice(["ddp", "collectives"]), default="ddp")
@click.option("--control", is_flag=True, help="Watch neither side: shows the remaining noise.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(
    *, rounds: int, pairs: int, seconds: float, mode: str, control: bool, as_json: bool
) -> None:
    """Compare a 4-rank job with and without `unstuck run`."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="unstuck-bench-") as name:
        measured = [
            measure_round(Path(name) / str(number), pairs, seconds, mode, control)
            for number in range(rounds)
        ]
    sides = "control: neither side watched" if control else "with and without unstuck"
    title = f"{mode}, {sides}, {rounds} x {pairs} pairs, 4 ranks, {os.cpu_count()} cores"
    together = [pair for each in measured for pair in each]
    beside = statistics.mean(pair.watched.watchers - pair.without.watchers for pair in together)
    if as_json:
        report = {"title": title, "rounds": [[asdict(pair) for pair in each] for each in measured]}
        print(json.dumps({**report, "watchers": beside, "load": load}, indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table(measured, f"{title}, load {load:.1f} before"))
    console.print(f"agent, hub and launcher: {beside:.2%} of one core")


if __name__ == "__main__":
    main()
