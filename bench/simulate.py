"""How well and how fast the culprit of a simulated job is found, compared to torchfrtrace.

Measurements in one command; run it with a Python that has unstuck and torch installed:

    python bench/simulate.py

1. Random faults in TP x PP x DP x EP jobs, with hosts that run 0, 5 and 40 operations ahead:
   how often only the faulty rank is named, with the right cause. The same for GPUs that stop,
   and how often a transport stall accuses somebody.
2. Time to diagnose 1,000, 10,000 and 100,000 ranks.
3. The same job as flight-recorder dumps, read by unstuck and by torchfrtrace: time without
   start-up and imports, and whom they name. Also the real gloo dumps of tests/golden/dumps; on
   those torchfrtrace fails with a KeyError, so it gets a second try with a corrected pg_config.
"""

import os
import pickle
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.table import Table

from unstuck.diagnose.diagnose import diagnose
from unstuck.lab import recordings
from unstuck.lab.layout import Layout
from unstuck.lab.simulate import CAUSES, ON_HOST, Fault, FaultKind, Simulation, draw, snapshot
from unstuck.observe.dumps.unpickle import loads

AHEAD = (0, 5, 40)
SLIPS = (0, 1, 2, 3, 5, 10, 30)
TORN = (0, 1, 3)
"""How many members complete the operation that stalls for the others."""
GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "dumps"
GLOO_FAULT_RANK = 2
TIMED = """
import sys, time
{imports}
began = time.perf_counter()
try:
    {call}
finally:
    print("seconds", time.perf_counter() - began)
"""
TORCH = TIMED.format(
    imports="from torch.distributed.flight_recorder.fr_trace import main",
    call='main([sys.argv[1], "--prefix", "trace_"])',
)
OURS = TIMED.format(
    imports="from unstuck.show.cli.main import main; import unstuck.show.cli.diagnose",
    call='main(["diagnose", "--json", sys.argv[1]])',
)


@dataclass(frozen=True)
class Answer:
    """What one analyser said about one directory of dumps."""

    seconds: float | None
    ranks: frozenset[int]
    error: str = ""

    def describe(self, culprit: int | None) -> str:
        """Describe whom it names: only the culprit, the culprit among others, or not."""
        if self.error:
            return self.error
        if culprit is None:
            return "nobody: right" if not self.ranks else f"{len(self.ranks)} innocent"
        if self.ranks == frozenset({culprit}):
            return "culprit alone"
        if culprit in self.ranks:
            return f"culprit and {len(self.ranks) - 1} innocent"
        return f"{len(self.ranks)} innocent" if self.ranks else "nobody"


def ask_torch(directory: Path, limit: float) -> Answer:
    """Run torchfrtrace and collect every rank that it calls missing or a culprit."""
    text, seconds, error = run(TORCH, directory, limit)
    if lost := re.search(r"Missing dump files from ranks \{([\d, ]+)\}", text):
        # It stops here, but that is an answer too.
        return Answer(seconds, frozenset(int(rank) for rank in lost[1].split(",")))
    named = {int(rank) for rank in re.findall(r"Culprit rank (\d+)", text)}
    for ranks in re.findall(r"missing ranks: \{([\d, ]+)\}", text):
        named.update(int(rank) for rank in ranks.split(","))
    return Answer(seconds, frozenset(named), error)


def ask_us(directory: Path, limit: float) -> Answer:
    """Run `unstuck diagnose --json`; a rank without a dump is missing in the stuck operation."""
    text, seconds, error = run(OURS, directory, limit)
    found = re.search(r'"culprits": \[(.*?)\n    \]', text, re.DOTALL)
    named = {int(rank) for rank in re.findall(r'"rank": (\d+)', found[1])} if found else set[int]()
    missing = re.search(r'"missing": \[([\d,\s]+)\]', text)
    if missing and not named:
        named = {int(rank) for rank in missing[1].split(",")}
    return Answer(seconds, frozenset(named), error)


def run(code: str, directory: Path, limit: float) -> tuple[str, float | None, str]:
    """Run code in another Python; return its output, its time and its error."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", code, str(directory)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=env, check=False
        )
    except subprocess.TimeoutExpired:
        return "", None, f"over {limit:.0f} s"
    text = done.stdout + done.stderr
    found = re.search(r"^seconds ([\d.e-]+)$", text, re.MULTILINE)
    crash = re.findall(r"^(\w*(?:Error|Exception)\b.*)$", done.stderr, re.MULTILINE)
    error = crash[-1][:40] if done.returncode and crash else ""
    return text, float(found[1]) if found else None, error


def faults(count: int, console: Console) -> None:
    table = Table("run-ahead", "fault", "jobs", "named alone", "cause right", title="Random faults")
    for ahead in AHEAD:
        jobs: Counter[FaultKind] = Counter()
        alone: Counter[FaultKind] = Counter()
        right: Counter[FaultKind] = Counter()
        for seed in range(count):
            made = draw(seed, ahead=ahead, experts=seed % 3 == 0)
            kind = made.fault.kind
            verdict = diagnose(snapshot(made)).verdict
            jobs[kind] += 1
            named = [one.rank for one in verdict.culprits] if verdict else []
            alone[kind] += named == [made.fault.rank]
            right[kind] += verdict is not None and verdict.cause is CAUSES[kind]
        for kind in ON_HOST:
            figures = (jobs[kind], alone[kind], right[kind])
            table.add_row(str(ahead), kind, *map(str, figures))
        totals = (sum(jobs.values()), sum(alone.values()), sum(right.values()))
        table.add_row(str(ahead), "all", *map(str, totals), style="bold", end_section=True)
    console.print(table)


def stops(count: int, console: Console) -> None:
    """Count whom the verdict names when a GPU stops, and when only the transport stalls."""
    title = "GPUs that stop after the others completed `slip` operations more, and transport stalls"
    columns = ("run-ahead", "slip", "jobs", "named alone", "nobody", "others named")
    table = Table("fault", *columns, title=title)
    for kind, slips in ((FaultKind.GPU_STOPPED, SLIPS), (FaultKind.TRANSPORT, TORN)):
        for ahead in AHEAD:
            for slip in slips:
                found: Counter[str] = Counter()
                for seed in range(count):
                    made = draw(seed, kinds=(kind,), slip=slip, ahead=ahead, experts=seed % 3 == 0)
                    found[whom(made)] += 1
                figures = (count, found["alone"], found["nobody"], found["others"])
                table.add_row(kind, str(ahead), str(slip), *map(str, figures))
    console.print(table)


def whom(made: Simulation) -> str:
    verdict = diagnose(snapshot(made)).verdict
    named = [one.rank for one in verdict.culprits] if verdict else []
    if not named:
        return "nobody"
    right = verdict is not None and verdict.cause is CAUSES[FaultKind.GPU_STOPPED]
    return "alone" if right and named == [made.fault.rank] else "others"


def stuck(layout: Layout, ahead: int) -> Simulation:
    """Let one rank in the middle not arrive at the first call of its fourth step."""
    rank = layout.size // 3
    stage = layout.place(rank)[1]
    first = next(i for i, call in enumerate(layout.step) if call.involves(stage))
    return Simulation(layout, Fault(FaultKind.STUCK, rank, 3 * len(layout.step) + first), ahead)


def scale(sizes: tuple[int, ...], console: Console) -> None:
    table = Table("ranks", "run-ahead", "cpu s", "wall s", "make s", title="Time to diagnose")
    for size in sizes:
        layout = Layout(tp=8, pp=16, dp=max(1, round(size / 128)))
        for ahead in AHEAD:
            made = stuck(layout, ahead)
            began = time.perf_counter()
            state = snapshot(made)
            making = time.perf_counter() - began
            cpu: list[float] = []
            wall: list[float] = []
            for _ in range(3):
                before = time.process_time(), time.perf_counter()
                verdict = diagnose(state).verdict
                cpu.append(time.process_time() - before[0])
                wall.append(time.perf_counter() - before[1])
                assert verdict is not None
                assert [one.rank for one in verdict.culprits] == [made.fault.rank]
            middle = statistics.median(cpu), statistics.median(wall)
            table.add_row(
                f"{layout.size:,}", str(ahead), *(f"{n:.3f}" for n in middle), f"{making:.1f}"
            )
            del state
    console.print(table)


def compare(sizes: tuple[int, ...], limit: float, console: Console) -> None:
    table = new_table("The same NCCL-style dumps")
    kinds = (FaultKind.STUCK, FaultKind.WRONG_OP, FaultKind.INVERSION, FaultKind.DEAD)
    for size in sizes:
        layout = Layout(tp=2, pp=2, dp=size // 4)
        slow = False
        for kind in kinds:
            made = Simulation(layout, Fault(kind, size // 3, place(layout, kind)), 5)
            with tempfile.TemporaryDirectory() as name:
                recordings.write(made, Path(name))
                ours = ask_us(Path(name), limit)
                theirs = Answer(None, frozenset(), "not tried")
                if not slow:
                    theirs = ask_torch(Path(name), limit)
                    slow = theirs.seconds is None
            add(table, f"{size} ranks, {kind}", ours, theirs, made.fault.rank)
    console.print(table)


def place(layout: Layout, kind: FaultKind) -> int:
    """Return the call at which a fault begins: that of the gradients, or the first of a step."""
    step = layout.step
    at = next(i for i, call in enumerate(step) if call.kind == "dp")
    return 3 * len(step) + (at if kind in (FaultKind.WRONG_OP, FaultKind.INVERSION) else 0)


def gloo(limit: float, console: Console) -> None:
    table = new_table("Real gloo dumps of four ranks")
    for home in sorted(GOLDEN.iterdir()):
        culprit = None if home.name == "healthy" else GLOO_FAULT_RANK
        with tempfile.TemporaryDirectory() as name:
            plain, patched = Path(name, "plain"), Path(name, "patched")
            for path in (plain, patched):
                path.mkdir()
            for file in pickles(home):
                shutil.copy(file, plain)
                (patched / file.name).write_bytes(patch(file))
            ours = ask_us(plain, limit)
            add(table, home.name, ours, ask_torch(plain, limit), culprit)
            add(table, f"{home.name}, patched", ours, ask_torch(patched, limit), culprit)
    console.print(table)


def pickles(home: Path) -> Iterator[Path]:
    yield from (file for file in sorted(home.iterdir()) if not file.suffix)


def patch(file: Path) -> bytes:
    """Write pg_config as NCCL does, so that torchfrtrace finds the groups of gloo's entries."""
    dump = cast("dict[str, Any]", loads(file.read_bytes()))
    groups = {tuple(entry["process_group"]) for entry in dump["entries"]}
    dump["pg_config"] = {
        name: {"name": name, "desc": desc, "ranks": "[0, 1, 2, 3]"} for name, desc in groups
    }
    return pickle.dumps(dump, protocol=2)


def new_table(title: str) -> Table:
    columns = ("dumps", "unstuck s", "names", "torchfrtrace s", "names", "ratio")
    return Table(*columns, title=f"{title} (time without imports)")


def add(table: Table, label: str, ours: Answer, theirs: Answer, culprit: int | None) -> None:
    ratio = ""
    if ours.seconds and theirs.seconds and not theirs.error:
        ratio = f"{theirs.seconds / ours.seconds:.1f}"
    table.add_row(
        label,
        "" if ours.seconds is None else f"{ours.seconds:.2f}",
        ours.describe(culprit),
        "" if theirs.seconds is None else f"{theirs.seconds:.2f}",
        theirs.describe(culprit),
        ratio,
    )


@click.command()
@click.option("--faults", "count", default=500, help="Random faults per run-ahead.")
@click.option("--stops", "stopped", default=100, help="Stopped GPUs per run-ahead and slip.")
@click.option("--ranks", default="1024,10240,100096", help="Job sizes to time.")
@click.option("--dumps", default="16,64,256,1024", help="Job sizes to write as dumps.")
@click.option("--limit", default=120.0, help="Seconds an analyser may take for one job.")
def main(count: int, stopped: int, ranks: str, dumps: str, limit: float) -> None:
    """Print all measurements, and one of real dumps."""
    console = Console(width=120)
    numbers = [tuple(int(n) for n in text.split(",") if n) for text in (ranks, dumps)]
    if count:
        faults(count, console)
    if stopped:
        stops(stopped, console)
    scale(numbers[0], console)
    compare(numbers[1], limit, console)
    gloo(limit, console)


if __name__ == "__main__":
    main()
