"""The table of `unstuck doctor`: how each thing stands, and below it what to do."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import msgspec
from rich.text import Text

from unstuck.console import clean
from unstuck.explain.report.screen import screen
from unstuck.explain.report.terminal import paint
from unstuck.model.health import Check, Rating

SCHEMA = "unstuck.doctor/1"
_STYLES = {
    Rating.OK: "green",
    Rating.UNKNOWN: "dim",
    Rating.WARNING: "yellow",
    Rating.BAD: "bold red",
}
_RATING, _NAME = 9, 14


def render(stream: TextIO, title: str, checks: Sequence[Check]) -> str:
    """Return the table for this stream, ending in a newline.

    Example:
        sys.stdout.write(render(sys.stdout, "this machine", checks))
    """
    shown = screen(stream)
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    width = min(max(shown.width, 60), 100)
    lines = [Text(clean(title), style="bold"), *_rows(checks, width)]
    if fixes := [check for check in checks if check.fix and check.rating is not Rating.OK]:
        lines += [Text(), Text("what to do", style="bold"), *_fixes(fixes, width)]
    lines += [Text(), Text(_sum(checks))]
    return paint(lines, colour=shown.colour, ascii_only=not utf8)


def as_json(checks: Sequence[Check], seconds: float) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "schema": SCHEMA,
        "rating": str(worst(checks)),
        "seconds": seconds,
        "checks": [msgspec.to_builtins(check) for check in checks],
    }


def worst(checks: Sequence[Check]) -> Rating:
    """Return the worst rating; what could not be looked at is no fault."""
    order = list(Rating)
    return max((check.rating for check in checks), key=order.index, default=Rating.OK)


def _rows(checks: Sequence[Check], width: int) -> Iterator[Text]:
    indent = " " * (2 + _RATING + _NAME)
    for check in checks:
        label = f"  {check.rating:<{_RATING}}"
        name = f"{check.name} " if len(check.name) >= _NAME else f"{check.name:<{_NAME}}"
        where = f"{check.host}: " if check.host else ""
        for number, line in enumerate(_wrap(where + check.text, width, label + name, indent)):
            row = Text(line)
            if not number:
                row.stylize(_STYLES[check.rating], 0, len(label))
            yield row


def _fixes(checks: Sequence[Check], width: int) -> Iterator[Text]:
    for number, check in enumerate(checks, 1):
        head = f"  {number} {check.name}: "
        for line in _wrap(check.fix, width, head, "    "):
            yield Text(line)


def _wrap(text: str, width: int, first: str, rest: str) -> list[str]:
    # Commands are there to be copied: no break at their dashes.
    return textwrap.wrap(
        clean(text),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _sum(checks: Sequence[Check]) -> str:
    bad = sum(check.rating is Rating.BAD for check in checks)
    warnings = sum(check.rating is Rating.WARNING for check in checks)
    if not bad and not warnings:
        return "nothing wrong was found"
    parts = [f"{bad} bad" if bad else "", f"{warnings} doubtful" if warnings else ""]
    return ", ".join(part for part in parts if part)
