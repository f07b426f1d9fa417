"""The verdict as a block for the terminal, to be read in ten seconds.

    -- unstuck: host-deadlock ------------------------------ step 120, 12:30:01 UTC --
       rank 2  waits for a lock, 34 s
               train.py:31 in load: lock.acquire()

        waits  ranks 0,1,3 in all_reduce number 7 of default_pg, 34 s
               1,024 elements (4 KiB) float32

One column of labels, one of text: the eye runs down the labels. The first line sets the block
off from the log around it; the last ones are for readers with more than ten seconds.
"""

import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from unstuck import durations
from unstuck.diagnose.text import group_text, numbers_text, ranks_text
from unstuck.explain.report import numbers
from unstuck.explain.report.screen import screen
from unstuck.model.doing import OVER
from unstuck.model.verdict import Cause, Culprit, Verdict

NARROWEST = 80
WIDEST = 100
GUTTER = 9
INDENT = GUTTER + 2
MOST_CULPRITS = 3
MOST_HOPS = 4
MOST_RECORDS = 3
MOST_LINES_OF_DOING = 3

_CHAIN_MATTERS = {Cause.ORDER_INVERSION, Cause.COLLECTIVE_MISMATCH}
_OVER = {Cause.PROCESS_CRASH, Cause.OUT_OF_MEMORY, Cause.RANK_LEFT_EARLY}
"""Of these the culprit has ended: its seconds say how long ago."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_GLUE = "\ue000"
_BLANK = Text()


def render(
    verdict: Verdict,
    *,
    width: int,
    colour: bool,
    unicode: bool | None = None,
    bundle: Path | None = None,
    base: Path | None = None,
) -> str:
    """Return the block, ending in a newline. Without colour it is plain ASCII by default.

    Paths below `base` are shown relative to it.

    Example:
        sys.stderr.write(render(verdict, width=80, colour=False, bundle=Path("runs/incident-1")))
    """
    block = Block(
        verdict,
        width=min(max(width, NARROWEST), WIDEST),
        unicode=colour if unicode is None else unicode,
        marked=colour,
        base=f"{base}/" if base else "",
    )
    return paint(block.lines(bundle), colour=colour, ascii_only=not block.unicode)


def render_for(
    stream: TextIO,
    verdict: Verdict,
    *,
    bundle: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Render for this stream: colour and line drawing only on a terminal that shows them."""
    shown = screen(stream, environ)
    terminal = stream.isatty() or bool(environ.get("FORCE_COLOR"))
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    drawn = terminal and utf8
    return render(verdict, **shown._asdict(), unicode=drawn, bundle=bundle, base=Path.cwd())


def _right(label: str) -> str:
    """Pad on the left to the gutter's width, in cells: a Chinese sign takes two."""
    return " " * (GUTTER - cell_len(label)) + label


def paint(lines: Iterable[Text], *, colour: bool, ascii_only: bool) -> str:
    """Return the lines as text for a terminal, with or without colour."""
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        width=WIDEST * 2,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    text = "\n".join(line.rstrip() for line in out.getvalue().split("\n"))
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


class Block:
    """Builds the lines from top to bottom."""

    labels: Mapping[str, str] = {}
    """Another language's word for a label."""

    def __init__(
        self, verdict: Verdict, *, width: int, unicode: bool, marked: bool, base: str = ""
    ) -> None:
        self.verdict = verdict
        self.width = width
        self.room = width - INDENT
        self.unicode = unicode
        self.marked = marked
        self.base = base
        self.dots = "\u2026" if unicode else "..."
        self.console = Console(file=io.StringIO(), width=self.room, legacy_windows=False)

    def lines(self, bundle: Path | None) -> list[Text]:
        """Return all lines of the block."""
        parts = (
            [self.head(), *self.culprits(), *self.waits()],
            [*self.do(), *self.dont()],
            [*self.sure(), *self._known_as(), *self._bundle(bundle)],
        )
        lines: list[Text] = []
        for part in parts:
            if part:
                lines += [*part, _BLANK]
        return lines

    def head(self) -> Text:
        """Return the first line: it sets the block off from what is around it."""
        verdict = self.verdict
        bar = "\u2501" if self.unicode else "-"
        moments = [f"step {verdict.step}"] if verdict.step else []
        if verdict.attempt:
            moments.append(f"attempt {verdict.attempt + 1}")
        if verdict.made_at:
            moments.append(f"{numbers.clock(verdict.made_at)} UTC")
        right = f" {', '.join(moments)} {bar * 2}" if moments else ""
        left = f"{bar * 2} unstuck: "
        fill = self.width - len(left) - len(verdict.cause) - len(right) - 1
        return Text.assemble(
            (left, "dim"),
            (str(verdict.cause), "bold red"),
            (f" {bar * fill}{right}", "dim"),
        )

    def culprits(self) -> list[Text]:
        """Return the culprits and what they do instead, or what happened where none is named."""
        if not self.verdict.culprits:
            summary = self.clean(self.verdict.summary) or "no rank to blame was found"
            return self.row("what", "bold red", summary, style="bold")
        alike: dict[tuple[str, str, int, str], list[Culprit]] = {}
        for culprit in self.verdict.culprits:
            key = (culprit.doing, culprit.file, culprit.line, culprit.function)
            alike.setdefault(key, []).append(culprit)
        groups = list(alike.values())
        lines = [line for group in groups[:MOST_CULPRITS] for line in self._culprit(group)]
        rest = [c.rank for group in groups[MOST_CULPRITS:] for c in group]
        if rest:
            lines += self.row("", "", f"and {ranks_text(rest)}: see the bundle")
        return lines

    def _culprit(self, group: list[Culprit]) -> list[Text]:
        first = group[0]
        over = isinstance(first.activity, OVER) or self.verdict.cause in _OVER
        ago = " ago" if over else ""
        lasted = durations.text(first.seconds) + ago if first.seconds else ""
        doing = self.clean(first.doing) + (f", {lasted.replace(' ', _GLUE)}" if lasted else "")
        if len(group) == 1:
            label = f"rank {first.rank}"
        else:
            label = "ranks"
            doing = f"{numbers_text(c.rank for c in group)}: each {doing}"
        lines = self.row(label, "bold red", doing, style="bold")[:MOST_LINES_OF_DOING]
        where = self._where(group)
        if not first.file:
            return lines + (self.row("", "", where) if where else [])
        return [*lines, *self._place(first, where), *self._code(first.code)]

    def _place(self, culprit: Culprit, where: str) -> list[Text]:
        """One line for place and host where the file's name stays whole, else two."""
        file = self.clean(self._relative(culprit.file))
        function = self.clean(culprit.function)
        shortest = f"{self.dots}/{file.rsplit('/', 1)[-1]}:{culprit.line} in {function}"
        space = self.room - len(where) - len("  ()")
        together = len(shortest) <= space
        room = space if together else self.room
        place = numbers.place(file, culprit.line, function, room=room, dots=self.dots)
        if together:
            return self.row("", "", f"{place}  ({where})" if where else place)
        return self.row("", "", place) + self.row("", "", where)

    def _where(self, group: list[Culprit]) -> str:
        hosts = list(dict.fromkeys(self.clean(c.host) for c in group if c.host))
        text = ", ".join(hosts) if len(hosts) <= MOST_CULPRITS else f"on {len(hosts)} hosts"
        if len(group) == 1 and group[0].pid:
            text = f"{text}, pid {group[0].pid}" if text else f"pid {group[0].pid}"
        return text

    def _code(self, code: str) -> list[Text]:
        if not code:
            return []
        bar = "\u2502 " if self.unicode else "| "
        line = Text(" " * INDENT)
        line.append(bar, "dim")
        line.append(self._cut(self.clean(code).strip(), self.room - 2), "cyan")
        return [line]

    def waits(self) -> list[Text]:
        """Return which ranks wait, in which operation and for how long."""
        verdict, stuck = self.verdict, self.verdict.stuck
        waiting = self._waiting()
        if not waiting:
            return self._chain()
        who = ranks_text(waiting)
        behind = set(verdict.victims) - set(waiting)
        since = self._since()
        if verdict.slowdown:
            return self.row("waits", "dim", f"{who} in every step{since}") + self.row(
                "slows", "dim", f"the job: a step takes {verdict.slowdown:.1f} times as long"
            )
        if stuck is None:
            return self.row("waits", "dim", f"{who}{since}") + self._chain()
        name = self.clean(group_text(stuck.group, stuck.description))
        op = stuck.op.rsplit(":", 1)[-1]
        number = f" number {stuck.number}" if stuck.number else ""
        text = f"{who} in {op}{number} of {name} ({stuck.group_size} ranks)"
        lines = self.row("waits", "dim", text)
        details = [part for part in (numbers.size(stuck), since.removeprefix(", ")) if part]
        line = "; ".join(details)
        for part in [line] if len(line) <= self.room else details:
            lines += self.row("", "", part)
        if behind:
            # Most of them wait behind those; some may have ended because of it.
            lines += self.row("", "", f"also affected: {ranks_text(behind)}")
        return lines + self._chain()

    def _waiting(self) -> tuple[int, ...]:
        """List the ranks that wait for the culprits; a culprit in another operation is not one."""
        verdict, stuck = self.verdict, self.verdict.stuck
        inside = (stuck.waiting if stuck else ()) or verdict.victims
        blamed = {culprit.rank for culprit in verdict.culprits}
        return tuple(rank for rank in inside if rank not in blamed) or inside

    def _since(self) -> str:
        verdict = self.verdict
        lasted = f", {durations.text(verdict.stalled_seconds)}" if verdict.stalled_seconds else ""
        return lasted + (f", since {numbers.clock(verdict.since)} UTC" if verdict.since else "")

    def _chain(self) -> list[Text]:
        chain = self.verdict.chain
        if not chain or (self.verdict.cause not in _CHAIN_MATTERS and len(chain) < 3):
            return []
        lines = self.rows("chain", "dim", chain[:MOST_HOPS])
        if len(chain) > MOST_HOPS:
            lines += self.row("", "", f"and {len(chain) - MOST_HOPS} more: see the bundle")
        return lines

    def do(self) -> list[Text]:
        """Return what to do, first thing first."""
        return self.rows("do", "green", self.verdict.do, marker="{} ")

    def dont(self) -> list[Text]:
        """Return what not to try."""
        items = [self.clean(item).removeprefix("do not ") for item in self.verdict.dont]
        return self.rows("don't", "yellow", items, marker="- ")

    def sure(self) -> list[Text]:
        """Return how sure it is, why, and what would decide for another cause."""
        verdict = self.verdict
        because = self.clean(verdict.because) or "no reason was given"
        lines = self.row(str(verdict.confidence), "dim", because)
        for other in verdict.alternatives:
            text = f"{other.cause}: {self.clean(other.decide_by)}"
            lines += self.row("or", "dim", text)
        return lines

    def _relative(self, path: str | Path) -> str:
        return str(path).removeprefix(self.base)

    def _known_as(self) -> list[Text]:
        """Name the records of the knowledge base that belong to it."""
        names = self.verdict.records[:MOST_RECORDS]
        text = f"{', '.join(names)}  (`unstuck kb show {names[0]}`)" if names else ""
        return self.row("records"[: 6 + (len(names) > 1)], "dim", text) if names else []

    def _bundle(self, bundle: Path | None) -> list[Text]:
        if bundle is None:
            return []
        return self.row("bundle", "dim", self.clean(self._relative(bundle)))

    def row(
        self, label: str, label_style: str, content: str, *, style: str = "", marker: str = ""
    ) -> list[Text]:
        """Return a label and its text, wrapped; `marker` goes before the first line."""
        label = self.labels.get(label, label)
        text = self._quoted(content, style)
        lines: list[Text] = []
        for part in text.wrap(self.console, self.room - len(marker), overflow="fold"):
            part.rstrip()
            part.plain = part.plain.replace(_GLUE, " ")
            line = Text.assemble((_right(label), label_style), "  ", (marker, "dim"), part)
            lines.append(line)
            label, marker = "", " " * len(marker)
        return lines

    def rows(
        self, label: str, label_style: str, items: Sequence[str], *, marker: str = ""
    ) -> list[Text]:
        """Return several texts below one label; `{}` in the marker stands for the number."""
        lines: list[Text] = []
        for number, item in enumerate(items, 1):
            first = "" if lines else label
            lines += self.row(first, label_style, self.clean(item), marker=marker.format(number))
        return lines

    def _quoted(self, content: str, style: str) -> Text:
        """Keep what is in backticks on one line: a command is copied, so it must not break."""
        text = Text(style=style)
        for index, piece in enumerate(content.split("`")):
            if index % 2 == 0:
                text.append(piece)
            elif self.marked:
                text.append(piece.replace(" ", _GLUE), "bold")
            else:
                text.append(f"`{piece}`".replace(" ", _GLUE))
        return text

    def clean(self, text: str) -> str:
        """Make one line of a text; an escape sequence in a message must not take effect."""
        return _CONTROL.sub("", " ".join(text.split()))

    def _cut(self, text: str, room: int) -> str:
        return text if len(text) <= room else text[: room - len(self.dots)] + self.dots
