"""A record in a terminal: markdown that reads well as it is, with colour where there is some."""

import contextlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from typing import TextIO

from rich.console import Console
from rich.text import Text

from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Record
from unstuck.explain.kb.words import say
from unstuck.explain.report.record import Part, about, address, named, outline

NARROWEST = 60
WIDEST = 100
_QUOTED = re.compile(r"(`[^`]+`)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def render_for(
    stream: TextIO,
    record: Record,
    kb: KnowledgeBase,
    lang: str = "en",
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Render for this stream: its width, and colour only on a terminal that shows it."""
    terminal = stream.isatty()
    plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    width = WIDEST
    if terminal:
        with contextlib.suppress(OSError):
            width = os.get_terminal_size(stream.fileno()).columns
    return render(record, kb, lang, width=width, colour=terminal and not plain)


def render(record: Record, kb: KnowledgeBase, lang: str = "en", *, width: int, colour: bool) -> str:
    """Return the record as text, ending in a newline.

    Example:
        print(render(kb.get("gloo/recv-timeout"), kb, width=80, colour=False), end="")
    """
    page = _Page(min(max(width, NARROWEST), WIDEST), colour=colour)
    page.add(f"# {record.id}", "bold red")
    page.blank()
    page.add(say(record.title, lang), "bold")
    page.add(" · ".join(about(record, lang)), "dim")
    for section in outline(record, kb, lang):
        page.blank()
        page.add(f"## {section.title}", "bold cyan")
        page.blank()
        for part in section.parts:
            page.part(part)
    return page.text()


class _Page:
    """Collects lines, wrapped to the width."""

    def __init__(self, width: int, *, colour: bool) -> None:
        self.width = width
        self.out = io.StringIO()
        self.console = Console(
            file=self.out,
            force_terminal=colour,
            color_system="standard" if colour else None,
            no_color=not colour,
            width=width,
            legacy_windows=False,
            highlight=False,
            emoji=False,
            markup=False,
        )

    def text(self) -> str:
        lines = self.out.getvalue().rstrip("\n").split("\n")
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def blank(self) -> None:
        if not self.out.getvalue().endswith("\n\n"):
            self.out.write("\n")

    def add(self, text: str, style: str = "", *, first: str = "", rest: str = "") -> None:
        room = self.width - len(first)
        for line in _styled(_clean(text), style).wrap(self.console, room, overflow="fold"):
            line.rstrip()
            self.console.print(Text(first) + line, soft_wrap=True)
            first = rest

    def part(self, part: Part) -> None:
        if part.code:
            # A message is copied and searched for: it is never broken.
            self.console.print(Text(f"    {_clean(part.code)}", "yellow"), soft_wrap=True)
            self.blank()
        elif part.head or part.records or part.links:
            self._entry(part)
        else:
            self.add(part.text)
            self.blank()

    def _entry(self, part: Part) -> None:
        lines = list(_entry_lines(part))
        for number, (text, style) in enumerate(lines):
            self.add(text, style, first="  " if number else "- ", rest="  ")
        if len(lines) > 1:
            self.blank()


def _entry_lines(part: Part) -> Iterator[tuple[str, str]]:
    name = part.head or ", ".join(part.records)
    if name:
        yield name, "bold"
    if part.text:
        yield part.text, ""
    if part.notes or (name and part.links):
        yield " · ".join((*part.notes, *map(named, part.links))), "dim"
    elif part.links:
        yield ", ".join(address(link) or link for link in part.links), ""


def _styled(text: str, style: str) -> Text:
    made = Text(style=style)
    for piece in _QUOTED.split(text):
        made.append(piece, "cyan" if _QUOTED.fullmatch(piece) else "")
    return made


def _clean(text: str) -> str:
    """Keep one line of it; an escape sequence in a user's record must not act."""
    return _CONTROL.sub("", " ".join(text.split()))
