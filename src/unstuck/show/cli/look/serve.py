"""`unstuck serve RUNS…`: what runs left behind, in a browser."""

from pathlib import Path

import click

from unstuck.errors import WorldError


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--web",
    metavar="HOST:PORT",
    help="Where to serve it. [default: a free port of the loopback interface]",
)
def serve(runs: tuple[Path, ...], web: str | None) -> None:
    """Show stored runs in a browser, until Ctrl-C.

    \b
    unstuck serve runs/7
    unstuck serve runs/*

    RUN is a run directory (its newest incident is shown, the reports of all can be opened) or a
    directory incident-<n>. The page of a job that runs is at the address that `unstuck run`
    printed.
    """
    from unstuck.launch.webpage import INSTALL, is_installed

    if not is_installed():
        raise WorldError("the page needs two more packages", hint=INSTALL)
    from unstuck.show.web.server import show_stored

    show_stored(runs, web)
