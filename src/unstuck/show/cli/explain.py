"""`unstuck explain PATH…`: what went wrong, from logs alone."""

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from unstuck import durations
from unstuck.errors import UsageError
from unstuck.explain.report import log_verdict as report
from unstuck.explain.report import machine
from unstuck.explain.report.screen import screen
from unstuck.pipelines import logs
from unstuck.show.cli.options import FOUND, NOTHING, kb_option, lang_option, print_json

LONG = 64 << 20
"""Bytes that take long enough to read for a progress bar."""


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@lang_option
@click.option("--all", "everything", is_flag=True, help="Show all evidence and unknown failures.")
@click.option(
    "--since",
    metavar="TIME",
    help="Ignore older lines. A time or an age: 2026-11-15T12:00, 30m, 2h, 1d.",
)
@click.option(
    "--batch", is_flag=True, help='Read JSON lines {"id": …, "log": …}, print one verdict per line.'
)
@kb_option
def explain(
    paths: tuple[str, ...],
    as_json: bool,
    lang: str,
    everything: bool,
    since: str | None,
    batch: bool,
    extra: tuple[Path, ...],
) -> int:
    """Explain what went wrong, from the logs of a job.

    PATH is a log file (.gz and .zst are fine), a directory of logs, or - for standard input.

    \b
    unstuck explain slurm-4711.out
    unstuck explain logs/ --since 2h
    kubectl logs job/train | unstuck explain -

    Exits with 1 if a problem was found, 0 if none was, 2 if a path cannot be read.
    """
    if batch:
        return _batch(paths, lang)
    if not paths:
        raise UsageError("no log to explain", hint="unstuck explain train.log")
    moment = _moment(since) if since else None
    with _progress(paths) as tick:
        found = logs.explain(paths, lang=lang, since=moment, progress=tick, extra=extra)
    if as_json:
        _print_json(found)
    else:
        width, colour = screen(sys.stdout)
        sys.stdout.write(
            report.render(found, lang=lang, everything=everything, width=width, colour=colour)
        )
    return FOUND if found.verdict else NOTHING


def _print_json(found: logs.Explanation) -> None:
    """Print the verdict file, with what is not part of the verdict beside it."""
    beside = {
        "unknown": found.unknown,
        "settings": found.settings,
        "links": found.links,
        "notes": found.notes,
        "read": {"files": found.files, "lines": found.lines, "bytes": found.size},
    }
    print_json({**machine.plain(found.verdict), **beside})


def _batch(paths: tuple[str, ...], lang: str) -> int:
    """Explain one log per line; a line that is not such an object gets an error of its own."""
    failed = False
    for path in paths or ("-",):
        with click.open_file(path, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    answer = _answer(line, number, lang)
                    failed = failed or "error" in answer
                    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    return UsageError.exit_code if failed else NOTHING


def _answer(line: str, number: int, lang: str) -> dict[str, Any]:
    try:
        asked = json.loads(line)
        name, log = asked["id"], asked["log"]
    except (ValueError, KeyError, TypeError):
        return {"id": None, "error": f"line {number} is not an object with id and log"}
    if not isinstance(log, str):
        return {"id": name, "error": f"line {number}: log is not a string"}
    found = logs.explain_text(log, lang=lang)
    return {"id": name, **machine.plain(found.verdict)}


def _moment(text: str) -> float:
    """Return the Unix time that an ISO time or an age stands for."""
    if not text.isdecimal() and (age := durations.parse(text)) is not None:
        return datetime.now(UTC).timestamp() - age
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "--since 2026-11-15T12:00, or 30m, 2h, 1d"
        raise UsageError(f"cannot read the time {text}", hint=hint) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@contextmanager
def _progress(paths: tuple[str, ...]) -> Generator[Callable[[int], None]]:
    """Show a progress bar on stderr for large input, if stderr is a terminal."""
    total = sum(Path(path).stat().st_size for path in paths if Path(path).is_file())
    if total < LONG or not sys.stderr.isatty():
        yield lambda _size: None
        return
    with click.progressbar(length=total, label="reading", file=sys.stderr) as bar:
        yield bar.update
