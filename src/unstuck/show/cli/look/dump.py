"""`unstuck dump`: store a running job as it is, whether it is stalled or not."""

from pathlib import Path

import click

from unstuck.collect import bundle
from unstuck.show import runs
from unstuck.show.cli.options import json_option, print_json, run_argument

SCHEMA = "unstuck.dump/1"


@click.command()
@json_option
@run_argument
def dump(run: Path | None, as_json: bool) -> None:
    """Store a running job as it is now, with the stacks of its ranks.

    The hub writes an incident bundle into the run directory, with the stacks of up to 64 ranks,
    those that others wait for first. Taking a stack interrupts a rank for about a millisecond.

    RUN is a run directory, or the name of one below runs/. Without it, the job that runs on this
    host is meant.
    """
    path = runs.dump(runs.find(run, need_running=True))
    ranks = sorted(int(file.stem.removeprefix("rank-")) for file in path.glob("stacks/*.txt"))
    verdict = bundle.read(path).verdict if path.is_dir() else None
    if as_json:
        facts = {"bundle": str(path), "stacks": ranks, "cause": verdict.cause if verdict else None}
        print_json({"schema": SCHEMA, **facts})
    else:
        click.echo(path)
        click.echo(f"stacks of {len(ranks)} rank{'' if len(ranks) == 1 else 's'}", err=True)
