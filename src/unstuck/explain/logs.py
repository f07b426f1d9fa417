"""Logs that nobody watched, explained: read, matched, diagnosed, and put in words.

explain(["logs/"])          files, directories, `-` for standard input
explain_text("[rank3]: …")  what is in memory
"""

import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, structs

from unstuck.diagnose.logs import diagnose
from unstuck.diagnose.logwords import LANGUAGES
from unstuck.diagnose.words import ranks_text
from unstuck.explain.advice import advise
from unstuck.explain.kb.load import KnowledgeBase, load
from unstuck.explain.kb.match import Matcher
from unstuck.explain.kb.schema import Record, Role, Text
from unstuck.model.log import LogCause, LogMatch, LogRecord
from unstuck.model.verdict import Cause, Verdict
from unstuck.observe.logs.reader import Found, Reader, Reading
from unstuck.observe.logs.scan import Literal
from unstuck.observe.logs.sources import find
from unstuck.observe.logs.templates import Cluster

SETTING = "setting"
"""Category of the records about settings that do nothing."""
_WRAPPERS = re.compile(r"torch\.distributed\.|Dist\w+Error|subprocess\.|SystemExit")
"""Exceptions that only pass on what the verdict explains already."""
_FAILURES = {Role.ROOT, Role.EITHER, Role.CASCADE}
_TELLING = {SETTING, "timeout"}
"""Categories of diagnostic records that name ranks, or settings."""
MOST_DO = 4
MOST_LINKS = 4
MOST_DONT = 3


class Note(Struct, frozen=True):
    """A setting in the logs that does not do what its name says, and what does."""

    record: str
    file: str
    line: int
    text: str
    advice: str


class Explanation(Struct, frozen=True):
    """What the logs say, ready to be shown."""

    verdict: Verdict | None
    unknown: tuple[Cluster, ...] = ()
    """Failure-looking lines in no record; never part of the verdict's reasons."""
    settings: tuple[Note, ...] = ()
    own: tuple[LogMatch, ...] = ()
    """Errors of the program itself, where nothing shows that the job as such failed."""
    matches: tuple[LogMatch, ...] = ()
    links: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    files: int = 0
    lines: int = 0
    size: int = 0


def explain(
    paths: Sequence[str],
    *,
    lang: str = "en",
    since: float | None = None,
    progress: Callable[[int], None] = lambda _size: None,
    extra: Sequence[Path] = (),
) -> Explanation:
    """Explain the logs at these paths.

    Example:
        explain(["slurm-4711.out"]).verdict
    """
    base = _base(tuple(extra))
    reader = Reader(base.literals, base.confirm, since=since, progress=progress)
    return base.explanation(reader.read(find(paths)), lang)


def explain_text(text: str | bytes, *, lang: str = "en", name: str = "log") -> Explanation:
    """Explain a log that is in memory."""
    base = _base(())
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    reader = Reader(base.literals, base.confirm)
    return base.explanation(reader.read_bytes(data, name), lang)


def anchors() -> list[Literal]:
    """Return the literals that logs are scanned for."""
    return _base(()).literals


@lru_cache(maxsize=4)
def _base(extra: tuple[Path, ...]) -> "_Base":
    return _Base(load(extra))


class _Base:
    """A knowledge base made ready for reading logs."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb
        self._matcher = Matcher(kb)
        # What changes no verdict is only worth a look where it reads like a failure: progress
        # bars and NCCL's INFO lines would otherwise be most of what is looked at.
        anchors = [a for a in self._matcher.anchors if any(map(self._matters, a.records))]
        self.literals = [Literal(anchor.text.encode(), anchor.any_case) for anchor in anchors]
        self._of_anchor = [anchor.records for anchor in anchors]

    def _matters(self, name: str) -> bool:
        record = self.kb.records[name]
        telling = record.role is Role.DIAGNOSTIC and record.category in _TELLING
        return record.role in _FAILURES or telling

    def confirm(self, text: str, anchors: Collection[int] | None) -> Found:
        """Return what a line matches; only records of these anchors where they are given."""
        wanted = None
        if anchors is not None:
            wanted = dict.fromkeys(r for a in sorted(anchors) for r in self._of_anchor[a])
        found = self._matcher.confirm(text, wanted)
        return [(record.id, str(record.role), fields) for record, fields in found]

    def explanation(self, found: Reading, lang: str) -> Explanation:
        """Diagnose what was read and put it in words."""
        views = {record.id: _view(record, lang) for record in self.kb.records.values()}
        verdict = diagnose(found.logs, views, lang)
        answer = self.kb.records.get(verdict.records[0]) if verdict and verdict.records else None
        if verdict is not None:
            verdict = _advised(verdict, answer, lang)
        return Explanation(
            verdict,
            _unexplained(found.unknown, verdict),
            tuple(self._settings(found.logs.matches, lang)),
            () if verdict else tuple(m for m in found.logs.matches if m.role in _FAILURES),
            found.logs.matches,
            _links(answer) if answer else (),
            tuple(found.notes),
            found.files,
            found.lines,
            found.size,
        )

    def _settings(self, matches: Sequence[LogMatch], lang: str) -> list[Note]:
        notes: dict[str, Note] = {}
        failed = {(m.line.file, m.line.line) for m in matches if m.role in _FAILURES}
        for match in matches:
            record = self.kb.records[match.record]
            place = (match.line.file, match.line.line)
            if record.category == SETTING and place not in failed:
                how = record.workarounds[0].how if record.workarounds else record.root_cause
                line = match.line
                note = Note(record.id, line.file, line.line, line.text, _say(how, lang))
                notes.setdefault(record.id, note)
        return list(notes.values())


def _unexplained(clusters: Sequence[Cluster], verdict: Verdict | None) -> tuple[Cluster, ...]:
    """Return the unknown failures that the verdict does not rest on, earliest first."""
    items = verdict.evidence if verdict else ()
    shown = {(item.file, item.line) for item in items}
    rest = [c for c in clusters if (c.first.file, c.first.line) not in shown]
    if verdict is not None:
        rest = [c for c in rest if not _WRAPPERS.match(c.exception)]
    return tuple(sorted(rest, key=lambda c: (c.first.time or 0.0, c.first.line)))


def _links(record: Record) -> tuple[str, ...]:
    found = dict.fromkeys((*record.docs, *record.sources))
    return tuple(link for link in found if link.startswith("http"))[:MOST_LINKS]


def _view(record: Record, lang: str) -> LogRecord:
    return LogRecord(
        record.id,
        str(record.role),
        _say(record.title, lang),
        record.category,
        record.domain,
        tuple(
            LogCause(cause.cause, _say(cause.evidence, lang), cause.facts, cause.reported)
            for cause in record.causes
        ),
        record.confidence,
        record.refines,
        record.facts,
    )


def _advised(verdict: Verdict, record: Record | None, lang: str) -> Verdict:
    """Fill in what to do and what not to try: the record's own first, else by cause."""
    do = [_step(w.action, w.how, lang) for w in record.workarounds] if record else []
    dont = [_dead_end(d.action, d.why, lang) for d in record.dead_ends] if record else []
    general = advise(verdict, lang)
    do = do or list(general.do)
    if verdict.culprits and (verdict.cause is Cause.UNKNOWN or not do):
        ranks = ranks_text(culprit.rank for culprit in verdict.culprits)
        do.insert(0, LANGUAGES[lang].look_first.format(ranks=ranks))
    return structs.replace(
        verdict,
        do=tuple(do[:MOST_DO]),
        dont=tuple((dont or list(general.dont))[:MOST_DONT]),
    )


def _step(action: Text, how: Text, lang: str) -> str:
    what, exactly = _say(action, lang).rstrip(".。"), _say(how, lang)
    colon = "：" if lang == "zh" else ": "
    return what if exactly.strip(".。") in {"", what} else f"{what}{colon}{exactly}"


def _dead_end(action: Text, why: Text, lang: str) -> str:
    colon = "：" if lang == "zh" else ": "
    return f"{_say(action, lang).rstrip('.。')}{colon}{_say(why, lang)}"


def _say(text: Text, lang: str) -> str:
    return text.zh if lang == "zh" else text.en
