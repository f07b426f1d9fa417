"""`unstuck lab`: real jobs that fail on purpose, and whether the verdicts are right."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem
from rich.console import Console

from unstuck.console import say
from unstuck.errors import UsageError
from unstuck.lab import libraries, runner, scenarios, session, sweep, table
from unstuck.lab.progress import Progress
from unstuck.lab.results import Results
from unstuck.lab.run import Run
from unstuck.lab.scenario import Scenario
from unstuck.lab.score import score
from unstuck.show.cli.options import json_option, print_json

SCHEMA = "unstuck.lab/1"

_own_scenarios = click.option(
    "--scenarios",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with scenarios of your own. May be repeated.",
)


def complete(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the names of scenarios for a shell."""
    known = [each for each in scenarios.load() if each.name.startswith(typed)]
    return [CompletionItem(each.name, help=each.about or each.expected) for each in known]


@click.group()
def lab() -> None:
    """Try unstuck on jobs that fail on purpose, before you rely on it.

    \b
    unstuck lab list
    unstuck lab run sigkill 'stop-*'
    unstuck lab run --repeat 5 --results lab.jsonl     (continues an interrupted session)
    unstuck lab run --repeat 5 --jobs 3                (faster, on a busier machine)
    unstuck lab run --world --hours 4 --jobs 8         (healthy jobs of real libraries)
    """


@lab.command("list")
@click.argument("names", nargs=-1, shell_complete=complete)
@_own_scenarios
@json_option
def list_scenarios(names: tuple[str, ...], files: tuple[Path, ...], as_json: bool) -> None:
    """List the scenarios and whether they can run on this machine."""
    chosen = scenarios.choose(scenarios.load(files), names)
    why_not = {each.name: each.why_not() for each in chosen}
    if as_json:
        print_json([_entry(each, why_not[each.name]) for each in chosen])
        return
    _print(table.listing(chosen, why_not))


@lab.command("run")
@click.argument("names", nargs=-1, shell_complete=complete)
@click.option("--repeat", type=click.IntRange(1), default=1, help="Runs per scenario. [default: 1]")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    help="Jobs at the same time; more make detection slower. [default: 1]",
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
    help="Append every run to FILE, and skip the runs it already has.",
)
@click.option(
    "--world",
    is_flag=True,
    help="Run healthy jobs of real libraries, in an environment of their own.",
)
@click.option(
    "--hours",
    type=click.FloatRange(0, min_open=True),
    metavar="H",
    help="With --world: go on until jobs were watched for H hours in all.",
)
@json_option
def run_scenarios(**given: Any) -> int:
    """Run scenarios and score the verdicts.

    NAMES are names or patterns of scenarios; without any, all of them are run. Ctrl-C ends the
    running jobs, cleans up, and prints the score so far.

    With --world, healthy jobs of Lightning, Accelerate, Transformers and torch's own libraries
    are run instead, five minutes each: whatever is said of them is a false alarm. The libraries
    are installed once, into an environment in the cache directory.

    Exits with 0 if every verdict is right, 1 if one is wrong.
    """
    wanted = _Wanted(**given)
    chosen = scenarios.choose(wanted.scenarios(), wanted.names)
    before = session.machine()
    results = Results(wanted.file)
    try:
        _run_all(wanted, chosen, results)
    except (KeyboardInterrupt, SystemExit):
        if results.runs:
            _report(chosen, results.runs, before, as_json=wanted.as_json)
        raise
    return 0 if _report(chosen, results.runs, before, as_json=wanted.as_json) else 1


class _Wanted(msgspec.Struct, frozen=True):
    """The options of `lab run`."""

    names: tuple[str, ...]
    repeat: int
    jobs: int
    files: tuple[Path, ...]
    keep: Path | None
    file: Path | None
    as_json: bool
    world: bool
    hours: float | None

    def scenarios(self) -> list[Scenario]:
        """Return all scenarios of this lab."""
        if not self.world:
            if self.hours:
                raise UsageError("--hours needs --world", hint="use --repeat for the fault lab")
            runner.need_torch()
            return scenarios.load(self.files)
        if self.files:
            raise UsageError("--scenarios and --world exclude each other")
        return scenarios.load_world(libraries.prepare(libraries.home()))


def _run_all(wanted: _Wanted, chosen: list[Scenario], results: Results) -> None:
    if swept := sweep.sweep():
        say(f"removed leftovers of a lab that was killed: {', '.join(swept)}")
    if results.taken_over:
        say(f"{results.taken_over} runs are already in the results file")
    if wanted.hours:
        with Progress(0) as progress:
            session.run_for(wanted.hours, chosen, progress, results, wanted.keep, wanted.jobs)
        return
    tasks = session.missing(chosen, wanted.repeat, results)
    with Progress(len(tasks)) as progress:
        session.run_all(tasks, progress, results, wanted.keep, wanted.jobs)


def _report(
    chosen: list[Scenario], runs: list[Run], before: session.Machine, *, as_json: bool
) -> bool:
    names = {each.name for each in chosen}
    result = score(chosen, [run for run in runs if run.scenario in names])
    if as_json:
        print_json({"schema": SCHEMA, "machine": before, "score": result, "runs": runs})
    else:
        _print(table.report(result, before))
    return result.good


def _entry(scenario: Scenario, why_not: str) -> dict[str, object]:
    facts = msgspec.to_builtins(scenario, enc_hook=str)
    return {**facts, "program": scenario.program.name, "runnable": not why_not, "why_not": why_not}


def _print(what: object) -> None:
    Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(what)
