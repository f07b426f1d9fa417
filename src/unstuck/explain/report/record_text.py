"""A record in a terminal: Markdown that is easy to read as it is, in colour if there is any."""

import re
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from unstuck.console import clean
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Record, say
from unstuck.explain.report.record import Part, about, address, named, outline
from unstuck.explain.report.terminal import paint

NARROWEST = 60
WIDEST = 100
_QUOTED = re.compile(r"(`[^`]+`)")


def render(record: Record, kb: KnowledgeBase, lang: str = "en", *, width: int, colour: bool) -> str:
    """Return the record as text, ending in a newline.

    Example:
        print(render(kb.get("gloo/recv-timeout"), kb, width=80, colour=False), end="")
    """
    page = _Page(min(max(width, NARROWEST), WIDEST))
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
    if not page.lines[-1]:
        page.lines.pop()
    return paint(page.lines, colour=colour, ascii_only=False)


class _Page:
    """Collects lines, wrapped to the width."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[Text] = []
        self._console = Console(width=width, legacy_windows=False)

    def blank(self) -> None:
        if self.lines[-1]:
            self.lines.append(Text())

    def add(self, text: str, style: str = "", *, first: str = "", rest: str = "") -> None:
        styled = Text(style=style)
        for piece in _QUOTED.split(clean(text)):
            styled.append(piece, "cyan" if _QUOTED.fullmatch(piece) else "")
        for line in styled.wrap(self._console, self.width - len(first), overflow="fold"):
            line.rstrip()
            self.lines.append(Text(first) + line)
            first = rest

    def part(self, part: Part) -> None:
        if part.code:
            # A message is copied and searched for: it is never broken.
            self.lines.append(Text(f"    {clean(part.code)}", "yellow"))
        elif not part.is_entry:
            self.add(part.text)
        else:
            lines = list(_entry(part))
            for number, (text, style) in enumerate(lines):
                self.add(text, style, first="  " if number else "- ", rest="  ")
            if len(lines) == 1:
                return
        self.blank()


def _entry(part: Part) -> Iterator[tuple[str, str]]:
    name = part.head or ", ".join(part.records)
    if name:
        yield name, "bold"
    if part.text:
        yield part.text, ""
    if part.notes or (name and part.links):
        yield " · ".join((*part.notes, *map(named, part.links))), "dim"
    elif part.links:
        yield ", ".join(address(link) or link for link in part.links), ""
