"""`unstuck report BUNDLE`: one incident as a document that can be read, mailed and kept."""

import sys
from pathlib import Path

import click
import msgspec

from unstuck.collect.bundle import read
from unstuck.errors import WorldError
from unstuck.explain.report.incident import markdown, page, trace
from unstuck.pipelines import incident_report


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Where to write it; - is standard output. [default: report.html in BUNDLE, else -]",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["html", "md", "json"]),
    help="What to write. [default: by the ending of FILE, else html]",
)
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the last operations of all ranks as a trace for ui.perfetto.dev.",
)
def report(bundle: Path, output: Path | None, kind: str | None, trace_file: Path | None) -> None:
    """Write a report of a stored incident: one HTML file that needs nothing else.

    \b
    unstuck report runs/7/incident-1 -o stall.html
    unstuck report runs/7 --format md             (for an issue or a chat)

    BUNDLE is a directory incident-<n>, or a run directory: its newest incident is used. The
    report has the verdict, the line of code, what to do, the evidence, who waits for whom, all
    ranks by host, and their stacks merged. `unstuck run` writes it beside every incident.
    """
    found = incident_report.load(bundle)
    if trace_file is not None:
        _write_trace(bundle, trace_file)
    match kind or _kind_of(output):
        case "md":
            content = markdown.render(found).encode(errors="replace")
        case "json":
            content = msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
        case _:
            content = page.render(found).encode(errors="replace")
            output = output or read(bundle).path / incident_report.NAME
    if output is None or str(output) == "-":
        sys.stdout.buffer.write(content)
    else:
        _write(output, content)
        click.echo(output)


def _kind_of(output: Path | None) -> str:
    return {".md": "md", ".json": "json"}.get(output.suffix if output else "", "html")


def _write_trace(bundle: Path, target: Path) -> None:
    snapshot = read(bundle).snapshot
    if trace.is_empty(snapshot):
        raise WorldError(
            "there is nothing to trace: no flight recorder was read in this incident",
            hint="leave out --trace",
        )
    _write(target, trace.render(snapshot))


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise WorldError(
            f"{path} cannot be written: {reason}", hint="name another place with -o FILE"
        ) from error
