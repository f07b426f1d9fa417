"""`unstuck diagnose BUNDLE`: the verdict again, from what was stored."""

import sys
from pathlib import Path

import click

from unstuck._version import __version__
from unstuck.collect import bundle
from unstuck.diagnose.verdict import diagnose as find_cause
from unstuck.diagnose.words import ranks_text
from unstuck.explain.advice import advise
from unstuck.explain.report import machine, terminal
from unstuck.model.verdict import Verdict

FOUND = 1
NOTHING = 0


@click.command()
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def diagnose(path: Path, as_json: bool) -> int:
    """Say again what was wrong, from an incident bundle.

    BUNDLE is a directory incident-<n>, a file in it, or a run directory (its newest
    incident). Exits with 1 when a problem was found, 0 when nothing is wrong, 2 when the
    bundle cannot be read.
    """
    incident = bundle.read(path)
    fresh = find_cause(incident.snapshot).verdict
    verdict = advise(fresh) if fresh else None
    if as_json:
        sys.stdout.write(machine.render(verdict))
    elif verdict:
        sys.stdout.write(terminal.render_for(sys.stdout, verdict, bundle=incident.path))
    else:
        click.echo("nothing is wrong in this snapshot")
    if _answer(verdict) != _answer(incident.verdict):
        wrote = incident.about.get("unstuck", "of unknown version")
        click.echo(
            f"unstuck: this verdict differs from the stored one ({_words(incident.verdict)}); "
            f"stored by unstuck {wrote}, read by {__version__}",
            err=True,
        )
    return FOUND if verdict else NOTHING


def _answer(verdict: Verdict | None) -> tuple[str, frozenset[int]] | None:
    """Return what must agree between two versions: the cause and whom it blames."""
    if verdict is None:
        return None
    return verdict.cause, frozenset(c.rank for c in verdict.culprits)


def _words(verdict: Verdict | None) -> str:
    if verdict is None:
        return "nothing wrong"
    blamed = [c.rank for c in verdict.culprits]
    return f"{verdict.cause}, {ranks_text(blamed)}" if blamed else str(verdict.cause)
