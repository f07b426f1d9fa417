"""`unstuck incidents`: what went wrong in a run, or in all runs here."""

from pathlib import Path
from typing import Any

import click

from unstuck.collect.bundle import Incident
from unstuck.console import clean
from unstuck.errors import BundleError, UsageError
from unstuck.show import runs
from unstuck.show.cli.options import json_option, print_json, run_argument
from unstuck.show.runs import Run

SCHEMA = "unstuck.incidents/1"


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Show at most this many, the newest.",
)
@json_option
@run_argument
def incidents(run: Path | None, limit: int, as_json: bool) -> None:
    """List what went wrong in a run.

    RUN is a run directory, or the name of one below runs/. Without it, the incidents of the job
    that runs on this host and of all runs below runs/ are listed, the newest last.

    `unstuck diagnose` shows one of them in full.
    """
    places = [runs.find(run)] if run is not None else _everywhere()
    rows = [row for place in places for row in rows_of(place)][-limit:]
    if as_json:
        print_json({"schema": SCHEMA, "incidents": rows})
    elif not rows:
        where = places[0].shown if len(places) == 1 else f"{len(places)} runs"
        click.echo(f"no incidents in {where}")
    else:
        for row in rows:
            click.echo(_line(row))


def _everywhere() -> list[Run]:
    found = {one.path: one for one in (*runs.below(), *runs.running())}
    if not found:
        raise UsageError(
            f"there is no run below {runs.FOLDER}/", hint="name the run directory of a job"
        )
    return sorted(found.values(), key=lambda one: one.path.stat().st_mtime)


def rows_of(run: Run) -> list[dict[str, Any]]:
    """Return the incidents of a run in brief, oldest first."""
    return [
        _row(run, path, found)
        for path, found in zip(runs.bundles(run), runs.incidents(run), strict=False)
    ]


def _row(run: Run, path: Path, found: Incident | BundleError) -> dict[str, Any]:
    row: dict[str, Any] = {"run": str(run.path), "bundle": str(path)}
    if isinstance(found, BundleError):
        return {**row, "error": found.message}
    verdict = found.verdict
    row["at"] = found.about.get("written_at", "")
    if verdict is None:
        return {**row, "cause": None, "summary": "asked for with unstuck dump"}
    return {
        **row,
        "cause": verdict.cause,
        "confidence": verdict.confidence,
        "culprits": [culprit.rank for culprit in verdict.culprits],
        "attempt": verdict.attempt,
        "step": verdict.step,
        "summary": verdict.summary,
    }


def _line(row: dict[str, Any]) -> str:
    path = Path(row["bundle"])
    shown = f"{Path(row['run']).name}/{path.name}"
    if "error" in row:
        return f"{clean(shown)}  cannot be read: {clean(row['error'])}"
    moment = str(row["at"]).replace("T", " ").removesuffix("+00:00")
    what = f"{row['cause'] or 'dump'}: {row['summary']}"
    return "  ".join(clean(part) for part in (moment, shown, what))
