"""What logs say, as a block for the terminal: the verdict, the lines it rests on, the rest.

Labels and sentences are Chinese with `lang="zh"`; log lines stay as they were printed.
"""

import re
from collections.abc import Mapping

from msgspec import structs
from rich.text import Text

from unstuck.diagnose.words import ranks_text
from unstuck.explain.logs import Explanation
from unstuck.explain.report import terminal
from unstuck.model.verdict import Evidence, Verdict
from unstuck.observe.logs.templates import Cluster

MOST_UNKNOWN = 3
MOST_SETTINGS = 3
MOST_CAUSES = 3
LONGEST_LINE = 300

_BAR = re.compile(r"\|[ #\u2580-\u259f]{3,}\|")
"""The picture of a progress bar: its numbers say the same."""
_PLAIN = {0x2026: "...", 0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'", 0x2192: "->"}
_ZH = {
    "what": "结论",
    "waits": "等待",
    "lines": "依据",
    "do": "先做",
    "don't": "别做",
    "certain": "确定",
    "likely": "很可能",
    "possible": "可能",
    "or": "或者",
    "links": "链接",
    "setting": "设置",
    "unknown": "未收录",
    "record": "条目",
    "note": "注意",
    "error": "错误",
    "ranks": "rank",
}
_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "nothing": "no distributed failure was found in {lines} lines of {files}",
        "file": "1 file",
        "files": "{n} files",
        "waits": "{who} in {op} number {number}",
        "not_known": "not in the knowledge base; these lines only look like failures",
        "times": "{n} times, first{rank}{time}",
        "once": "once{rank}{time}",
        "on_rank": " on rank {rank}",
        "at_time": " at {time}",
        "more": "and {n} more kinds: --all shows them",
        "own": "of the program itself: nothing here shows a failure of the job as such",
        "does_nothing": "does nothing here",
        "also": "other causes of this message: {causes}; --all says what decides",
    },
    "zh": {
        "nothing": "在 {files} 的 {lines} 行中没有发现分布式故障",
        "file": "1 个文件",
        "files": "{n} 个文件",
        "waits": "{who} 停在 {op} 第 {number} 号",
        "not_known": "未收录：下列行看起来像故障，这里不作任何断言",
        "times": "{n} 次，首次{rank}{time}",
        "once": "1 次{rank}{time}",
        "on_rank": "在 rank {rank}",
        "at_time": "，时间 {time}",
        "more": "另有 {n} 类：用 --all 查看",
        "own": "程序自身的错误：这里没有迹象表明是分布式任务的故障",
        "does_nothing": "在这里不起作用",
        "also": "这条消息的其他原因：{causes}；用 --all 查看判定依据",
    },
}


def render(
    found: Explanation, *, lang: str = "en", everything: bool = False, width: int = 80, colour: bool
) -> str:
    """Return the block, ending in a newline; `everything` shows all lines and clusters.

    Example:
        sys.stdout.write(render(explain(["train.log"]), colour=False))
    """
    unicode = colour or lang != "en"
    block = _LogBlock(
        found, lang, everything=everything, width=min(max(width, 80), 100), marked=colour
    )
    return terminal.paint(
        block.sections(everything=everything), colour=colour, ascii_only=not unicode
    )


class _LogBlock(terminal.Block):
    def __init__(
        self, found: Explanation, lang: str, *, everything: bool, width: int, marked: bool
    ) -> None:
        nothing = Verdict("unknown", "possible", (), (), "")  # type: ignore[arg-type]
        verdict = found.verdict or nothing
        self.all_causes = [str(other.cause) for other in verdict.alternatives]
        if not everything:
            verdict = structs.replace(verdict, alternatives=verdict.alternatives[:MOST_CAUSES])
        super().__init__(verdict, width=width, unicode=marked or lang != "en", marked=marked)
        self.found = found
        self.labels: Mapping[str, str] = _ZH if lang == "zh" else {}
        self.words = _WORDS[lang]

    def clean(self, text: str) -> str:
        """Keep one line of what is shown; plain signs where the terminal has no others."""
        found = super().clean(text)
        return found if self.unicode else found.translate(_PLAIN)

    def sections(self, *, everything: bool) -> list[Text]:
        """Return the verdict first, then what is not part of it."""
        parts = [self._nothing()]
        if self.found.verdict is not None:
            parts = [
                [
                    self.head(),
                    *self.culprits(),
                    *self._title(),
                    *self._waits_in(),
                    *self._rests(everything),
                ],
                [*self.do(), *self.dont()],
                [*self.sure(), *self._more_causes(everything=everything), *self._links()],
            ]
        parts += [
            self._own(everything=everything),
            self._settings(),
            self._unknown(everything=everything),
            self._notes(),
        ]
        lines: list[Text] = []
        for part in parts:
            if part:
                lines += [*part, Text()]
        return lines[:-1]

    def _nothing(self) -> list[Text]:
        files = self.found.files
        many = self.words["files"].format(n=f"{files:,}") if files != 1 else self.words["file"]
        text = self.words["nothing"].format(lines=f"{self.found.lines:,}", files=many)
        return [Text(text)]

    def _title(self) -> list[Text]:
        """Say what the message means where the culprits stand above without it."""
        if not self.verdict.culprits:
            return []
        return self.row("what", "dim", self.clean(self.verdict.summary.split(": ", 1)[-1]))

    def _waits_in(self) -> list[Text]:
        stuck = self.verdict.stuck
        if stuck is None or not stuck.waiting:
            return []
        who = ranks_text(stuck.waiting)
        text = self.words["waits"].format(who=who, op=stuck.op, number=stuck.number)
        return self.row("waits", "dim", text)

    def _rests(self, everything: bool) -> list[Text]:
        lines: list[Text] = []
        items = self.verdict.evidence
        shown = items if everything else _chosen(items)
        for item in shown:
            place = f"{item.file}:{item.line}"
            lines += self.row("" if lines else "lines", "dim", f"{place}  ({item.role})")
            lines += self._quote(item.text, LONGEST_LINE if everything else 0)
        return lines

    def _more_causes(self, *, everything: bool) -> list[Text]:
        """Say which causes are left out of the list of those that remain."""
        hidden = self.all_causes[MOST_CAUSES:]
        if not hidden or everything:
            return []
        return self.row("", "", self.words["also"].format(causes=", ".join(hidden)))

    def _links(self) -> list[Text]:
        lines: list[Text] = []
        if self.verdict.records:
            name = self.verdict.records[0]
            lines += self.row("record", "dim", f"{name}  (unstuck kb show {name})")
        for link in self.found.links:
            lines += self.row("links" if link is self.found.links[0] else "", "dim", link)
        return lines

    def _own(self, *, everything: bool) -> list[Text]:
        matches = self.found.own
        if not matches:
            return []
        lines = self.row("error", "dim", self.words["own"])
        for match in matches if everything else matches[:MOST_UNKNOWN]:
            lines += self.row("", "", f"{match.line.file}:{match.line.line}  ({match.record})")
            lines += self._quote(match.line.text)
        return lines

    def _settings(self) -> list[Text]:
        lines: list[Text] = []
        for note in self.found.settings[:MOST_SETTINGS]:
            place = f"{note.file}:{note.line}: {self.clean(note.text)[:120]}"
            lines += self.row("setting", "yellow", f"{place} {self.words['does_nothing']}")
            lines += self.row("", "", self.clean(note.advice))
        return lines

    def _unknown(self, *, everything: bool) -> list[Text]:
        clusters = self.found.unknown
        if not clusters:
            return []
        lines = self.row("unknown", "dim", self.words["not_known"])
        shown = clusters if everything else clusters[:MOST_UNKNOWN]
        for cluster in shown:
            lines += self._cluster(cluster)
        if len(clusters) > len(shown):
            lines += self.row("", "", self.words["more"].format(n=len(clusters) - len(shown)))
        return lines

    def _cluster(self, cluster: Cluster) -> list[Text]:
        first = cluster.first
        rank = self.words["on_rank"].format(rank=first.rank) if first.rank is not None else ""
        time = ""
        if first.time is not None:
            from unstuck.diagnose.words import moment

            time = self.words["at_time"].format(time=moment(first.time))
        often = "times" if cluster.count > 1 else "once"
        count = self.words[often].format(n=cluster.count, rank=rank, time=time)
        lines = self.row("", "", f"{first.file}:{first.line}  ({count})")
        return lines + self._quote(first.text)

    def _quote(self, line: str, room: int = 0) -> list[Text]:
        """Return a line of a log as it was printed, cut where it is long."""
        text, room = _BAR.sub("|..|", self.clean(line)), room or 4 * self.room - 8
        text = text if len(text) <= room else text[: room - 3] + self.dots
        return self.row("", "", text.replace("`", "'"), marker="| ")

    def _notes(self) -> list[Text]:
        lines: list[Text] = []
        for note in self.found.notes:
            lines += self.row("note", "yellow", self.clean(note))
        return lines


def _chosen(items: tuple[Evidence, ...]) -> list[Evidence]:
    """Return what a reader needs to see: the root, a victim, consequences, the context."""
    taken: dict[str, int] = {}
    chosen: list[Evidence] = []
    for item in items:
        taken[item.role] = taken.get(item.role, 0) + 1
        if taken[item.role] <= (2 if item.role in {"context", "cascade"} else 1):
            chosen.append(item)
    return chosen
