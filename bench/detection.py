"""How fast and how correctly each hang is diagnosed: one line per program, on real jobs.

Like `unstuck lab run` for the programs that need no injected fault, optionally on two hosts
(network namespaces). Run it with a Python that has unstuck and torch installed:

    python bench/detection.py --repeat 5
    python bench/detection.py --repeat 5 --nodes 2
"""

import sys

import click
import msgspec
from rich.console import Console

from unstuck.lab.faults import Inside
from unstuck.lab.progress import Progress
from unstuck.lab.results import Results
from unstuck.lab.runner import need_torch
from unstuck.lab.scenario import Scenario
from unstuck.lab.scenarios import choose, load
from unstuck.lab.score import score
from unstuck.lab.session import machine, missing, run_all
from unstuck.lab.sweep import sweep
from unstuck.lab.table import report


def programs(only: tuple[str, ...], nodes: int) -> list[Scenario]:
    """Return the programs that need no injected fault, on this many hosts."""
    alone = [each for each in load() if isinstance(each.fault, Inside) and each.hosts == 1]
    return [msgspec.structs.replace(each, hosts=nodes) for each in choose(alone, only)]


@click.command()
@click.option("--repeat", default=5, show_default=True, help="Runs of each program.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this program; may be repeated.")
@click.option("--nodes", type=click.IntRange(1, 2), default=1, help="Hosts (network namespaces).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(*, repeat: int, only: tuple[str, ...], nodes: int, as_json: bool) -> None:
    """Measure the time from the onset of a fault to the verdict, and whether it is right."""
    need_torch()
    sweep()
    chosen, on = programs(only, nodes), machine()
    results = Results()
    tasks = missing(chosen, repeat, results)
    with Progress(len(tasks)) as progress:
        run_all(tasks, progress, results)
    result = score(chosen, results.runs)
    if as_json:
        print(msgspec.json.encode({"machine": on, "score": result, "runs": results.runs}).decode())
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(report(result, on))
    sys.exit(0 if result.good else 1)


if __name__ == "__main__":
    main()
