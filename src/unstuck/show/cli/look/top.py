"""`unstuck top`: a job live in the terminal."""

import sys
from pathlib import Path

import click

from unstuck.errors import UsageError, UserError
from unstuck.explain.report.screen import screen
from unstuck.show import runs, status_text
from unstuck.show.cli.options import json_option, print_json, run_argument
from unstuck.show.runs import Run


@click.command()
@click.option("--once", is_flag=True, help="Print the job as it is now, and exit.")
@json_option
@run_argument
def top(run: Path | None, once: bool, as_json: bool) -> None:
    """Watch a job live in the terminal: every rank, the verdict, one rank in detail.

    RUN is a run directory, or the name of one below runs/. Without it, the job that runs on this
    host is shown.

    Arrow keys or h, j, k, l select a rank, c the culprit, enter shows its stacks, d stores the
    job, space freezes the screen, q leaves. With --once or --json the job is printed once, which
    needs no terminal.
    """
    found = runs.find(run, need_running=True)
    if as_json:
        print_json(runs.view(found))
    elif once:
        _print(found)
    else:
        _watch(found)


def _print(run: Run) -> None:
    from unstuck.explain.report.terminal import paint
    from unstuck.show.tui import drawing

    width, colour = screen(sys.stdout)
    view, headline = runs.view(run), status_text.headline(runs.status(run))
    lines = drawing.once(view, headline, run.name, width, letters=not colour)
    click.echo(paint(lines, colour=colour, ascii_only=not colour), nl=False)


def _watch(run: Run) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("this is no terminal", hint="unstuck top --once")
    try:
        from unstuck.show.tui.app import Top
    except ImportError as error:
        raise UserError(
            f"the terminal view needs a package that is missing: {error.name}",
            hint="pip install 'unstuck[tui]', or: unstuck top --once",
        ) from error
    Top(run).run()
