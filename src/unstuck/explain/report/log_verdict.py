"""What logs say, as a block for the terminal: the verdict, the lines it rests on, the rest.

Labels and sentences are Chinese with `lang="zh"`; log lines stay as they were printed.
"""

import re
from collections import Counter
from collections.abc import Mapping

from msgspec import structs
from rich.text import Text

from unstuck.diagnose.text import moment, ranks_text
from unstuck.explain.explanation import Explanation
from unstuck.explain.kb.schema import Text as Phrase
from unstuck.explain.kb.schema import say
from unstuck.explain.kb.words import CONFIDENCES
from unstuck.explain.report import terminal
from unstuck.model.logs import LogLine
from unstuck.model.verdict import Cause, Confidence, Evidence, Verdict
from unstuck.observe.logs.find.templates import Cluster

MOST_UNKNOWN = 3
MOST_SETTINGS = 3
MOST_CAUSES = 3
LONGEST_LINE = 300

_BAR = re.compile(r"\|[ #\u2580-\u259f]{3,}\|")
"""The bar of a progress bar: its numbers say the same."""
_PLAIN = {0x2026: "...", 0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'", 0x2192: "->"}
_LABELS_ZH = {
    **{sure: text.zh for sure, text in CONFIDENCES.items()},
    "what": "结论",
    "waits": "等待",
    "lines": "依据",
    "do": "先做",
    "don't": "别做",
    "or": "或者",
    "links": "链接",
    "setting": "设置",
    "unknown": "未收录",
    "record": "条目",
    "note": "注意",
    "error": "错误",
    "ranks": "rank",
}
_PHRASES = {
    "nothing": Phrase(
        "no distributed failure was found in {lines} of {files}",
        "在 {files}的 {lines}中没有发现分布式故障",
    ),
    "line": Phrase("1 line", "1 行"),
    "lines": Phrase("{n} lines", "{n} 行"),
    "file": Phrase("1 file", "1 个文件"),
    "files": Phrase("{n} files", "{n} 个文件"),
    "waits": Phrase("{who} in {op} number {number}", "{who} 停在 {op} 第 {number} 号"),
    "not_known": Phrase(
        "not in the knowledge base; these lines only look like failures",
        "未收录：下列行看起来像故障，这里不作任何断言",
    ),
    "times": Phrase("{n} times, first{rank}{time}", "{n} 次，首次{rank}{time}"),
    "once": Phrase("once{rank}{time}", "1 次{rank}{time}"),
    "on_rank": Phrase(" on rank {rank}", "在 rank {rank}"),
    "at_time": Phrase(" at {time}", "，时间 {time}"),
    "more": Phrase("and {n} more kinds: --all shows them", "另有 {n} 类：用 --all 查看"),
    "own": Phrase(
        "raised by the program itself; nothing here shows that the job as such failed",
        "程序自身的错误：这里没有迹象表明是分布式任务的故障",
    ),
    "no_effect": Phrase("has no effect here", "在这里不起作用"),
    "also": Phrase(
        "other causes of this message: {causes}; --all says how to tell them apart",
        "这条消息的其他原因：{causes}；用 --all 查看判定依据",
    ),
}


def render(
    found: Explanation, *, lang: str = "en", everything: bool = False, width: int = 80, colour: bool
) -> str:
    """Return the block, ending in a newline; `everything` shows all lines and clusters.

    Example:
        sys.stdout.write(render(explain(["train.log"]), colour=False))
    """
    block = _LogBlock(found, lang, everything=everything, width=width, colour=colour)
    return terminal.paint(block.sections(), colour=colour, ascii_only=not block.unicode)


class _LogBlock(terminal.Block):
    def __init__(
        self, found: Explanation, lang: str, *, everything: bool, width: int, colour: bool
    ) -> None:
        verdict = found.verdict or Verdict(Cause.UNKNOWN, Confidence.POSSIBLE, (), (), "")
        self.all_causes = [str(other.cause) for other in verdict.alternatives]
        if not everything:
            verdict = structs.replace(verdict, alternatives=verdict.alternatives[:MOST_CAUSES])
        super().__init__(
            verdict,
            width=min(max(width, terminal.NARROWEST), terminal.WIDEST),
            unicode=colour or lang != "en",
            marked=colour,
        )
        self.found = found
        self.lang = lang
        self.labels: Mapping[str, str] = _LABELS_ZH if lang == "zh" else {}
        self.everything = everything

    def _say(self, phrase: str, **fields: object) -> str:
        return say(_PHRASES[phrase], self.lang).format(**fields)

    def clean(self, text: str) -> str:
        """Keep one line; plain characters where the terminal has no others."""
        found = super().clean(text)
        return found if self.unicode else found.translate(_PLAIN)

    def sections(self) -> list[Text]:
        """Return the verdict first, then what is not part of it."""
        parts = [self._nothing()]
        if self.found.verdict is not None:
            parts = [
                [self.head(), *self.culprits(), *self._title(), *self._waits_in(), *self._rests()],
                [*self.do(), *self.dont()],
                [*self.sure(), *self._more_causes(), *self._links()],
            ]
        parts += [self._own(), self._settings(), self._unknown(), self._notes()]
        lines = [line for part in parts if part for line in (*part, Text())]
        return lines[:-1]

    def _nothing(self) -> list[Text]:
        found = self.found
        lines = self._say("line" if found.lines == 1 else "lines", n=f"{found.lines:,}")
        files = self._say("file" if found.files == 1 else "files", n=f"{found.files:,}")
        return [Text(self._say("nothing", lines=lines, files=files))]

    def _title(self) -> list[Text]:
        """Say what the message means, where the lines about culprits do not."""
        if not self.verdict.culprits:
            return []
        return self.row("what", "dim", self.clean(self.verdict.summary.split(": ", 1)[-1]))

    def _waits_in(self) -> list[Text]:
        stuck = self.verdict.stuck
        if stuck is None or not stuck.waiting:
            return []
        who, op = ranks_text(stuck.waiting), self.clean(stuck.op)
        return self.row("waits", "dim", self._say("waits", who=who, op=op, number=stuck.number))

    def _rests(self) -> list[Text]:
        lines: list[Text] = []
        items = self.verdict.evidence
        for item in items if self.everything else _chosen(items):
            room = LONGEST_LINE if self.everything else 0
            lines += self._cited(item, item.role, label="" if lines else "lines", room=room)
        return lines

    def _more_causes(self) -> list[Text]:
        """Name the causes that the list of alternatives leaves out."""
        hidden = [] if self.everything else self.all_causes[MOST_CAUSES:]
        return self.row("", "", self._say("also", causes=", ".join(hidden))) if hidden else []

    def _links(self) -> list[Text]:
        lines: list[Text] = []
        if self.verdict.records:
            name = self.verdict.records[0]
            lines += self.row("record", "dim", f"{name}  (unstuck kb show {name})")
        return lines + self.rows("links", "dim", self.found.links)

    def _own(self) -> list[Text]:
        matches = self.found.own
        lines = self.row("error", "dim", self._say("own")) if matches else []
        for match in matches if self.everything else matches[:MOST_UNKNOWN]:
            lines += self._cited(match.line, match.record)
        return lines

    def _settings(self) -> list[Text]:
        lines: list[Text] = []
        for note in self.found.settings[:MOST_SETTINGS]:
            place = f"{self.clean(note.file)}:{note.line}: {self.clean(note.text)[:120]}"
            lines += self.row("setting", "yellow", f"{place} {self._say('no_effect')}")
            lines += self.row("", "", self.clean(note.advice))
        return lines

    def _unknown(self) -> list[Text]:
        clusters = self.found.unknown
        lines = self.row("unknown", "dim", self._say("not_known")) if clusters else []
        shown = clusters if self.everything else clusters[:MOST_UNKNOWN]
        for cluster in shown:
            lines += self._cited(cluster.first, self._count(cluster))
        if len(clusters) > len(shown):
            lines += self.row("", "", self._say("more", n=len(clusters) - len(shown)))
        return lines

    def _count(self, cluster: Cluster) -> str:
        first = cluster.first
        rank = self._say("on_rank", rank=first.rank) if first.rank is not None else ""
        time = self._say("at_time", time=moment(first.time)) if first.time is not None else ""
        phrase = "times" if cluster.count > 1 else "once"
        return self._say(phrase, n=cluster.count, rank=rank, time=time)

    def _cited(
        self, line: LogLine | Evidence, about: str, *, label: str = "", room: int = 0
    ) -> list[Text]:
        """Return where a line of a log is, and the line as it was printed, cut where it is long."""
        text, room = _BAR.sub("|..|", self.clean(line.text)), room or 4 * self.room - 8
        text = text if len(text) <= room else text[: room - 3] + self.dots
        place = self.row(label, "dim", f"{self.clean(line.file)}:{line.line}  ({about})")
        return place + self.row("", "", text.replace("`", "'"), marker="| ")

    def _notes(self) -> list[Text]:
        return [line for note in self.found.notes for line in self.rows("note", "yellow", [note])]


def _chosen(items: tuple[Evidence, ...]) -> list[Evidence]:
    """Return what a reader needs to see: the root, a victim, consequences, the context."""
    taken = Counter[str]()
    chosen: list[Evidence] = []
    for item in items:
        taken[item.role] += 1
        if taken[item.role] <= (2 if item.role in {"context", "cascade"} else 1):
            chosen.append(item)
    return chosen
