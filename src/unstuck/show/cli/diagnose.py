"""`unstuck diagnose PATH`: the verdict from an incident bundle or from PyTorch's own dumps."""

import sys
from pathlib import Path

import click

from unstuck.console import say
from unstuck.explain.report import machine, terminal
from unstuck.pipelines import stored
from unstuck.show.cli.options import FOUND, NOTHING


@click.command()
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def diagnose(paths: tuple[Path, ...], as_json: bool) -> int:
    """Diagnose a stored incident, or flight-recorder dumps written by PyTorch.

    PATH is an incident bundle: a directory incident-<n>, a file in it, or a run directory
    (its newest incident is used). Or it is a directory of flight-recorder dumps, or the dump
    files themselves: JSON or pickle, from gloo or NCCL, one per rank, with the rank at the end
    of the file name. No code in a pickle is ever run.

    Exits with 1 if a problem was found, 0 if nothing is wrong, 2 if PATH cannot be read.
    """
    judged = stored.judge(paths)
    if as_json:
        sys.stdout.write(machine.render(judged.verdict))
    elif judged.verdict:
        sys.stdout.write(terminal.render_for(sys.stdout, judged.verdict, bundle=judged.bundle))
    else:
        click.echo(f"nothing is wrong in {judged.source}")
    for note in judged.notes:
        say(note)
    return FOUND if judged.verdict else NOTHING
