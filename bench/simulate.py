"""How well and how fast the culprit of a simulated job is found, beside PyTorch's torchfrtrace.

Three measurements, one command; run it with the Python that has unstuck and torch installed:

    python bench/simulate.py

1. Random faults in TP x PP x DP x EP jobs, with hosts that run 0, 5 and 40 operations ahead:
   how often the rank at fault is named alone, with the right cause.
2. Time to diagnose 1,000, 10,000 and 100,000 ranks.
3. The same job as flight-recorder dumps, read by unstuck and by torchfrtrace: time without
   start-up and imports, and whom they name. Also the real gloo dumps of tests/golden/dumps; on
   those torchfrtrace ends in a KeyError, so it gets a second try with pg_config set right.
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

from unstuck.diagnose.verdict import diagnose
from unstuck.lab import recordings
from unstuck.lab.layout import Layout
from unstuck.lab.simulate import (
    CAUSES,
    Fault,
    FaultKind,
    Simulation,
    draw,
    snapshot,
)
from unstuck.observe.dumps.unpickle import loads

AHEAD = (0, 5, 40)
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
    trouble: str = ""

    def describe(self, culprit: int | None) -> str:
        """Say whom it names: the culprit alone, among others, or not."""
        if self.trouble:
            return self.trouble
        if culprit is None:
            return "nobody: right" if not self.ranks else f"{len(self.ranks)} innocent"
        if self.ranks == frozenset({culprit}):
            return "culprit alone"
        if culprit in self.ranks:
            return f"culprit and {len(self.ranks) - 1} innocent"
        return f"{len(self.ranks)} innocent" if self.ranks else "nobody"


def ask_torch(directory: Path, limit: float) -> Answer:
    """Run torchfrtrace and collect every rank that it calls missing or culprit."""
    text, seconds, trouble = run(TORCH, directory, limit)
    if lost := re.search(r"Missing dump files from ranks \{([\d, ]+)\}", text):
        # It ends here by itself; what it says is still an answer.
        return Answer(seconds, frozenset(int(rank) for rank in lost[1].split(",")))
    named = {int(rank) for rank in re.findall(r"Culprit rank (\d+)", text)}
    for ranks in re.findall(r"missing ranks: \{([\d, ]+)\}", text):
        named.update(int(rank) for rank in ranks.split(","))
    return Answer(seconds, frozenset(named), trouble)


def ask_us(directory: Path, limit: float) -> Answer:
    """Run `unstuck diagnose --json`; a rank without a dump is named in the summary."""
    text, seconds, trouble = run(OURS, directory, limit)
    found = re.search(r'"culprits": \[(.*?)\n    \]', text, re.DOTALL)
    named = {int(rank) for rank in re.findall(r'"rank": (\d+)', found[1])} if found else set[int]()
    unseen = re.search(r"stands still and ranks? ([\d,]+), for which", text)
    if unseen and not named:
        named = {int(rank) for rank in unseen[1].split(",")}
    return Answer(seconds, frozenset(named), trouble)


def run(code: str, directory: Path, limit: float) -> tuple[str, float | None, str]:
    """Run code in a Python of its own; give its output, its time and its trouble."""
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
    trouble = crash[-1][:40] if done.returncode and crash else ""
    return text, float(found[1]) if found else None, trouble


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
        for kind in FaultKind:
            figures = (jobs[kind], alone[kind], right[kind])
            table.add_row(str(ahead), kind, *map(str, figures))
        totals = (sum(jobs.values()), sum(alone.values()), sum(right.values()))
        table.add_row(str(ahead), "all", *map(str, totals), style="bold", end_section=True)
    console.print(table)


def stuck(layout: Layout, ahead: int) -> Simulation:
    """One rank in the middle does not come to the first call of its fourth step."""
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
    """Give the call at which a fault begins: the gradients' for two kinds, else a step's first."""
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
        name: {"name": name, "desc": told, "ranks": "[0, 1, 2, 3]"} for name, told in groups
    }
    return pickle.dumps(dump, protocol=2)


def new_table(title: str) -> Table:
    columns = ("dumps", "unstuck s", "names", "torchfrtrace s", "names", "ratio")
    return Table(*columns, title=f"{title} (time without imports)")


def add(table: Table, label: str, ours: Answer, theirs: Answer, culprit: int | None) -> None:
    ratio = ""
    if ours.seconds and theirs.seconds and not theirs.trouble:
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
@click.option("--ranks", default="1024,10240,100096", help="Job sizes to time.")
@click.option("--dumps", default="16,64,256,1024", help="Job sizes to write as dumps.")
@click.option("--limit", default=120.0, help="Seconds that an analyser may take for one job.")
def main(count: int, ranks: str, dumps: str, limit: float) -> None:
    """Measure and print three tables and one of real dumps."""
    console = Console(width=120)
    numbers = [tuple(int(n) for n in text.split(",") if n) for text in (ranks, dumps)]
    if count:
        faults(count, console)
    scale(numbers[0], console)
    compare(numbers[1], limit, console)
    gloo(limit, console)


if __name__ == "__main__":
    main()
