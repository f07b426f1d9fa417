"""`unstuck lab`: real jobs that go wrong on purpose, and whether unstuck says so rightly."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from unstuck.lab.results import Results
    from unstuck.lab.run import Run
    from unstuck.lab.scenario import Scenario
    from unstuck.lab.session import Machine

SCHEMA = "unstuck.lab/1"

_own_scenarios = click.option(
    "--scenarios",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with scenarios of your own; may be repeated.",
)


def complete(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the names of scenarios for a shell."""
    from unstuck.lab.scenarios import load

    known = [each for each in load() if each.name.startswith(typed)]
    return [CompletionItem(each.name, help=each.about or each.expected) for each in known]


@click.group()
def lab() -> None:
    """Try unstuck on jobs that go wrong on purpose, before you trust it.

    \b
    unstuck lab list
    unstuck lab run sigkill 'stop-*'
    unstuck lab run --repeat 5 --results lab.jsonl     (goes on where it was ended)
    unstuck lab run --repeat 5 --jobs 3                (sooner done, on a busier machine)
    """


@lab.command("list")
@click.argument("names", nargs=-1, shell_complete=complete)
@_own_scenarios
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def list_scenarios(names: tuple[str, ...], files: tuple[Path, ...], as_json: bool) -> None:
    """List the scenarios, and which of them can be run on this machine."""
    chosen = _choose(names, files)
    why_not = {each.name: each.why_not() for each in chosen}
    if as_json:
        _print_json([_entry(each, why_not[each.name]) for each in chosen])
        return
    from unstuck.lab.table import listing

    _print(listing(chosen, why_not))


@lab.command("run")
@click.argument("names", nargs=-1, shell_complete=complete)
@click.option("--repeat", type=click.IntRange(1), default=1, help="Runs of each. [default: 1]")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    help="Jobs side by side; the times get longer. [default: 1]",
)
@_own_scenarios
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the files of every run below DIR.",
)
@click.option(
    "--results",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write every run to FILE; those in it already are not made again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def run_scenarios(
    names: tuple[str, ...],
    repeat: int,
    jobs: int,
    files: tuple[Path, ...],
    keep: Path | None,
    file: Path | None,
    as_json: bool,
) -> int:
    """Run scenarios, all or those that fit a NAME or pattern, and score what is said of them.

    Exit code 0 when every run is right, 1 when something is wrong. Ctrl-C ends the jobs of
    the moment, cleans up, and prints the score of what was run until then.
    """
    from unstuck.lab.results import Results
    from unstuck.lab.runner import need_torch
    from unstuck.lab.session import machine

    chosen = _choose(names, files)
    need_torch()
    before = machine()
    results = Results(file)
    try:
        _run_all(chosen, repeat, jobs, results, keep)
    except (KeyboardInterrupt, SystemExit):
        if results.runs:
            _report(chosen, results.runs, before, as_json=as_json)
        raise
    return 0 if _report(chosen, results.runs, before, as_json=as_json) else 1


def _choose(names: tuple[str, ...], files: tuple[Path, ...]) -> "list[Scenario]":
    from unstuck.lab.scenarios import choose, load

    return choose(load(files), names)


def _run_all(
    chosen: "list[Scenario]", repeat: int, jobs: int, results: "Results", keep: Path | None
) -> None:
    from unstuck.console import say
    from unstuck.lab.progress import Progress
    from unstuck.lab.session import missing, run_all
    from unstuck.lab.sweep import sweep

    if swept := sweep():
        say(f"removed what a lab that was killed had left: {', '.join(swept)}")
    if results.taken_over:
        say(f"{results.taken_over} runs are there from before")
    tasks = missing(chosen, repeat, results)
    with Progress(len(tasks)) as progress:
        run_all(tasks, progress, results, keep, jobs)


def _report(
    chosen: "list[Scenario]", runs: "list[Run]", before: "Machine", *, as_json: bool
) -> bool:
    from unstuck.lab.score import score

    names = {each.name for each in chosen}
    result = score(chosen, [run for run in runs if run.scenario in names])
    if as_json:
        _print_json({"schema": SCHEMA, "machine": before, "score": result, "runs": runs})
    else:
        from unstuck.lab.table import report

        _print(report(result, before))
    return result.good


def _entry(scenario: "Scenario", why_not: str) -> dict[str, object]:
    import msgspec

    facts = msgspec.to_builtins(scenario, enc_hook=str)
    return {**facts, "program": scenario.program.name, "runnable": not why_not, "why_not": why_not}


def _print_json(value: object) -> None:
    import msgspec

    encoded = msgspec.json.encode(value, enc_hook=str)
    click.echo(msgspec.json.format(encoded, indent=2).decode())


def _print(what: object) -> None:
    import sys

    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(what)
