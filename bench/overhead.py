"""What being watched costs: steps per second with and without `unstuck run`, interleaved.

Both sides run on the same machine within the same minutes, in the order A B B A A B …, so
that a drift of the machine does not favour one of them:

    python bench/overhead.py --pairs 5 --seconds 12
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

BIN = Path(sys.executable).parent
PROGRAM = Path(__file__).parent / "ddp_steps.py"
TORCHRUN = (str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "4", str(PROGRAM))


def rate(*, watched: bool, mode: str, seconds: float) -> float:
    """Run the job once and give its steps per second."""
    with tempfile.TemporaryDirectory(prefix="unstuck-bench-") as name:
        folder = Path(name)
        watcher = (str(BIN / "unstuck"), "run", "--run-dir", str(folder / "run"))
        own = {"RESULT": str(folder / "result"), "MODE": mode, "SECONDS": str(seconds)}
        argv = (*watcher, *TORCHRUN) if watched else TORCHRUN
        with (folder / "output").open("w+") as output:
            env = {**os.environ, **own}
            done = subprocess.run(argv, env=env, stdout=output, stderr=output, check=False)
            output.seek(0)
            if done.returncode != 0:
                raise click.ClickException(f"the job failed:\n{output.read()[-3000:]}")
        incidents = list((folder / "run").glob("incident-*"))
        if incidents:
            print("note: unstuck raised an incident in this run", file=sys.stderr)
        return float(json.loads((folder / "result").read_text())["per_second"])


def pair(number: int, mode: str, seconds: float) -> tuple[float, float]:
    """Measure one pair, every second one in reverse order; give (without, with)."""
    order = (False, True) if number % 2 == 0 else (True, False)
    found = {watched: rate(watched=watched, mode=mode, seconds=seconds) for watched in order}
    without, watched = found[False], found[True]
    print(
        f"pair {number + 1}: {without:.2f} steps/s without, {watched:.2f} with, "
        f"ratio {watched / without:.4f}, load {os.getloadavg()[0]:.1f}",
        file=sys.stderr,
        flush=True,
    )
    return without, watched


def interval(values: list[float], rounds: int = 5000) -> tuple[float, float]:
    """Give the 95 % bootstrap interval of the median; the seed is fixed."""
    chance = random.Random(0)  # noqa: S311 - a fixed seed is the point
    medians = sorted(
        statistics.median(chance.choices(values, k=len(values))) for _ in range(rounds)
    )
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def table(pairs: list[tuple[float, float]], title: str) -> Table:
    """Lay the pairs and their ratio out for people."""
    shown = Table(title=title)
    for heading in ("pair", "without, steps/s", "with, steps/s", "with / without"):
        shown.add_column(heading, justify="right")
    for number, (without, watched) in enumerate(pairs, 1):
        shown.add_row(str(number), f"{without:.2f}", f"{watched:.2f}", f"{watched / without:.4f}")
    return shown


@click.command()
@click.option("--pairs", default=5, show_default=True, help="Runs of each side.")
@click.option("--seconds", default=12.0, show_default=True, help="Measured time of each run.")
@click.option("--mode", type=click.Choice(["ddp", "collectives"]), default="ddp")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(*, pairs: int, seconds: float, mode: str, as_json: bool) -> None:
    """Compare a 4-rank job with and without `unstuck run`."""
    before = os.getloadavg()[0]
    measured = [pair(number, mode, seconds) for number in range(pairs)]
    ratios = [watched / without for without, watched in measured]
    low, high = interval(ratios)
    summary = {
        "mode": mode,
        "cores": os.cpu_count(),
        "load_before": before,
        "pairs": measured,
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        "median_interval_95": [low, high],
    }
    if as_json:
        print(json.dumps(summary, indent=2))
        return
    title = f"{mode}, 4 ranks, {os.cpu_count()} cores, load {before:.1f} before"
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(table(measured, title))
    console.print(
        f"with / without: median {statistics.median(ratios):.4f}, min {min(ratios):.4f}, "
        f"max {max(ratios):.4f}; 95 % interval of the median {low:.4f} to {high:.4f} (bootstrap)"
    )


if __name__ == "__main__":
    main()
