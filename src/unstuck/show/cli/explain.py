"""`unstuck explain PATH…`: what went wrong, from logs that nobody watched."""

import json
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from unstuck.errors import UsageError
from unstuck.explain import logs
from unstuck.explain.report import logs as report
from unstuck.explain.report import machine

FOUND = 1
NOTHING = 0
LONG = 64 << 20
"""Bytes from which a progress bar is worth its place."""

_AGO = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of the texts."
)
@click.option("--all", "everything", is_flag=True, help="Show every line and unknown failure.")
@click.option("--since", metavar="T", help="Leave older lines out: 2026-11-15T12:00, 30m, 2h, 1d.")
@click.option("--batch", is_flag=True, help='JSON lines in and out: {"id", "log"} -> verdict.')
@click.option(
    "--kb",
    "extra",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A directory of your own records; may be given several times.",
)
def explain(
    paths: tuple[str, ...],
    as_json: bool,
    lang: str,
    everything: bool,
    since: str | None,
    batch: bool,
    extra: tuple[Path, ...],
) -> int:
    """Say what went wrong, from the logs of a job.

    PATH is a log file (also .gz or .zst), a directory of them, or - for standard input. Exits
    with 1 when a problem was found, 0 when none was, 2 when a path cannot be read.

    \b
    unstuck explain slurm-4711.out
    unstuck explain logs/ --since 2h
    kubectl logs job/train | unstuck explain -
    """
    if batch:
        return _batch(paths, lang)
    if not paths:
        raise UsageError("no log to explain", hint="unstuck explain train.log")
    moment = _moment(since) if since else None
    with _progress(paths) as tick:
        found = logs.explain(paths, lang=lang, since=moment, progress=tick, extra=extra)
    if as_json:
        sys.stdout.write(_json(found))
    else:
        sys.stdout.write(_text(found, lang, everything=everything))
    return FOUND if found.verdict else NOTHING


def _text(found: logs.Explanation, lang: str, *, everything: bool) -> str:
    stream = sys.stdout
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 80
    colour = stream.isatty() and not plain
    return report.render(found, lang=lang, everything=everything, width=width, colour=colour)


def _json(found: logs.Explanation) -> str:
    """Return the verdict file, with what is not part of the verdict beside it."""
    plain = json.loads(machine.render(found.verdict))
    plain["unknown"] = [msgspec.to_builtins(cluster) for cluster in found.unknown]
    plain["settings"] = [msgspec.to_builtins(note) for note in found.settings]
    plain["links"] = list(found.links)
    plain["notes"] = list(found.notes)
    plain["read"] = {"files": found.files, "lines": found.lines, "bytes": found.size}
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _batch(paths: tuple[str, ...], lang: str) -> int:
    """Explain one log a line; a line that is no such object gets an error of its own."""
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
    return {"id": name, **json.loads(machine.render(found.verdict))}


def _moment(text: str) -> float:
    """Return the Unix time that an ISO time or an age stands for."""
    if ago := _AGO.fullmatch(text):
        return datetime.now(UTC).timestamp() - int(ago[1]) * _SECONDS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"cannot read the time {text}", hint="--since 2026-11-15T12:00, or 30m, 2h, 1d"
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@contextmanager
def _progress(paths: tuple[str, ...]) -> Generator[Callable[[int], None]]:
    """Show a bar on stderr for input that takes a while; nothing where nobody looks."""
    total = sum(Path(path).stat().st_size for path in paths if Path(path).is_file())
    if total < LONG or not sys.stderr.isatty():
        yield lambda _size: None
        return
    with click.progressbar(length=total, label="reading", file=sys.stderr) as bar:
        yield bar.update
