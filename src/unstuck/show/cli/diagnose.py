"""`unstuck diagnose PATH`: the verdict from what was stored: a bundle, or PyTorch's own dumps."""

import sys
from pathlib import Path

import click
from msgspec.structs import replace

from unstuck._version import __version__
from unstuck.collect import bundle
from unstuck.diagnose.verdict import diagnose as find_cause
from unstuck.diagnose.words import ranks_text
from unstuck.explain.advice import advise
from unstuck.explain.report import machine, terminal
from unstuck.model.verdict import Verdict
from unstuck.observe.dumps import notes, read, state

FOUND = 1
NOTHING = 0


@click.command()
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def diagnose(paths: tuple[Path, ...], as_json: bool) -> int:
    """Say what was wrong, from an incident bundle or from PyTorch's own dumps.

    PATH is a bundle: a directory incident-<n>, a file in it, or a run directory (its newest
    incident). Or it is a directory of flight-recorder dumps, or the files themselves: JSON or
    pickle, of gloo or NCCL, one per rank, the rank at the end of the name. Pickles are read
    without running anything. Exits with 1 when a problem was found, 0 when nothing is wrong,
    2 when PATH cannot be read.
    """
    if _are_dumps(paths):
        return _from_dumps(paths, as_json=as_json)
    if len(paths) != 1:
        raise click.UsageError("several paths can be given for flight-recorder dumps only")
    return _from_bundle(paths[0], as_json=as_json)


def _are_dumps(paths: tuple[Path, ...]) -> bool:
    first = paths[0]
    if first.is_file():
        return first.name not in bundle.FILES
    return first.is_dir() and not bundle.is_at(first) and bool(read.find([first]))


def _from_bundle(path: Path, *, as_json: bool) -> int:
    incident = bundle.read(path)
    fresh = find_cause(incident.snapshot).verdict
    verdict = advise(fresh) if fresh else None
    _print(verdict, "nothing is wrong in this snapshot", incident.path, as_json=as_json)
    if _answer(verdict) != _answer(incident.verdict):
        wrote = incident.about.get("unstuck", "of unknown version")
        click.echo(
            f"unstuck: this verdict differs from the stored one ({_words(incident.verdict)}); "
            f"stored by unstuck {wrote}, read by {__version__}",
            err=True,
        )
    return FOUND if verdict else NOTHING


def _from_dumps(paths: tuple[Path, ...], *, as_json: bool) -> int:
    reading = read.read(paths)
    snapshot = state.make_snapshot(reading)
    told = notes.notes(reading, snapshot)
    fresh = find_cause(snapshot).verdict
    verdict = advise(replace(fresh, evidence=fresh.evidence + told)) if fresh else None
    count = len({dump.rank for dump in reading.dumps})
    _print(verdict, f"nothing is wrong in the dumps of {count} ranks", None, as_json=as_json)
    for note in told:
        where = "" if note.text.startswith(note.source) else f"{note.source}: "
        click.echo(f"unstuck: {where}{note.text}", err=True)
    return FOUND if verdict else NOTHING


def _print(verdict: Verdict | None, healthy: str, home: Path | None, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(machine.render(verdict))
    elif verdict:
        sys.stdout.write(terminal.render_for(sys.stdout, verdict, bundle=home))
    else:
        click.echo(healthy)


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
