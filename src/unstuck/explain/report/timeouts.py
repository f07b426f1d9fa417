"""The timeouts of a job as a table from the inside out, then what is wrong and what to write."""

import textwrap
from collections.abc import Iterator

from rich.text import Text

from unstuck.durations import text as duration
from unstuck.explain.report.terminal import paint
from unstuck.model.timeouts import Knob, KnobNote, NoteKind, Origin, TimeoutsFile

_LAYER, _NAME, _VALUE = 14, 34, 14
_TITLES = {
    NoteKind.IDLE: ("without effect", "yellow"),
    NoteKind.CONFLICT: ("in conflict", "red"),
    NoteKind.HINT: ("worth knowing", "cyan"),
}


def render(
    found: TimeoutsFile, *, width: int = 80, colour: bool = False, sources: bool = False
) -> str:
    """Return the report, ending in a newline; `sources` says how each claim is known.

    Example:
        sys.stdout.write(render(judge(settings)))
    """
    lines = [Text(f"timeouts of {found.source}", style="bold"), Text(), *_table(found, width)]
    for kind, (title, style) in _TITLES.items():
        notes = [note for note in found.notes if note.kind is kind]
        if notes:
            lines += [Text(), Text(title, style=f"bold {style}"), *_notes(notes, width, sources)]
    if found.proposal:
        lines += [Text(), Text("a consistent set", style="bold green"), *_settings(found, width)]
    elif not any(note.kind is not NoteKind.HINT for note in found.notes):
        lines += [Text(), Text("no setting conflicts with another, and none is without effect")]
    for unseen in found.unseen:
        lines += [Text(), *_wrapped(f"not known: {unseen}", width, "  ")]
    return paint(lines, colour=colour, ascii_only=False)


def _table(found: TimeoutsFile, width: int) -> Iterator[Text]:
    if not found.knobs:
        yield Text("  no timeout is set")
    last = ""
    for knob in found.knobs:
        layer = "" if knob.layer == last else knob.layer
        last = knob.layer
        head = f"  {layer:<{_LAYER}}{knob.name:<{_NAME}} {_value(knob):<{_VALUE}}"
        line = Text(head + _origin(knob))
        if knob.origin is not Origin.DEFAULT:
            line.stylize("bold", 2 + _LAYER, len(head))
        yield line
        if knob.about and knob.about != "none given":
            yield from _wrapped(knob.about, width, " " * (2 + _LAYER + 2), style="dim")


def _value(knob: Knob) -> str:
    if knob.seconds is None:
        return knob.value or "unknown"
    return duration(knob.seconds)


def _origin(knob: Knob) -> str:
    if knob.origin is Origin.DEFAULT:
        return f"default ({knob.where})" if knob.where else "default"
    return knob.where or str(knob.origin)


def _notes(notes: list[KnobNote], width: int, sources: bool) -> Iterator[Text]:
    for note in notes:
        first = f"  {', '.join(note.knobs)}: {note.text}"
        yield from _wrapped(first, width, "    ", first="  ")
        if note.source and sources:
            yield from _wrapped(f"({note.source})", width, "    ", style="dim")


def _settings(found: TimeoutsFile, width: int) -> Iterator[Text]:
    for one in found.proposal:
        yield Text(f"  {one.line}")
        yield from _wrapped(f"{one.place}: {one.why}", width, "    ", style="dim")


def _wrapped(
    text: str, width: int, indent: str, *, first: str | None = None, style: str = ""
) -> Iterator[Text]:
    start = indent if first is None else first
    for line in textwrap.wrap(
        text.strip(),
        max(width, 60),
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        yield Text(line, style=style)
