"""What logs say, ready to be shown: the verdict with its advice, and what stands beside it."""

from collections.abc import Sequence

from msgspec import Struct, structs

from unstuck.diagnose.logs.phrases import LANGUAGES
from unstuck.diagnose.logs.scope import WRAPPERS
from unstuck.diagnose.text import ranks_text
from unstuck.explain.advice.advice import advise
from unstuck.explain.advice.join import MOST_DO, record_first
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import FAILURES, Record, say
from unstuck.model.logs import LogMatch
from unstuck.model.verdict import Cause, Verdict
from unstuck.observe.logs.find.templates import Cluster
from unstuck.observe.logs.reader import Reading

SETTING = "setting"
"""Category of the records about settings that have no effect."""
MOST_LINKS = 4


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
    """Failure-looking lines that match no record; never part of the verdict's reasons."""
    settings: tuple[Note, ...] = ()
    own: tuple[LogMatch, ...] = ()
    """Errors of the program itself, where nothing shows that the job as such failed."""
    matches: tuple[LogMatch, ...] = ()
    links: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    files: int = 0
    lines: int = 0
    size: int = 0


def explanation(
    reading: Reading, verdict: Verdict | None, kb: KnowledgeBase, lang: str
) -> Explanation:
    """Put a verdict from logs in words, with what the knowledge base knows about it."""
    matches = reading.logs.matches
    record = kb.records.get(verdict.records[0]) if verdict and verdict.records else None
    links = dict.fromkeys((*record.docs, *record.sources)) if record else ()
    return Explanation(
        _with_advice(verdict, record, lang) if verdict else None,
        _unexplained(reading.unknown, verdict),
        _settings(matches, kb, lang),
        () if verdict else tuple(m for m in matches if m.role in FAILURES),
        matches,
        tuple(link for link in links if link.startswith("http"))[:MOST_LINKS],
        tuple(reading.notes),
        reading.files,
        reading.lines,
        reading.size,
    )


def _with_advice(verdict: Verdict, record: Record | None, lang: str) -> Verdict:
    """Fill in what to do and what not to try: the record's own first, else by cause."""
    general = advise(verdict, lang)
    do, dont = record_first(general.do, general.dont, record, lang)
    if verdict.culprits and (verdict.cause is Cause.UNKNOWN or not do):
        ranks = ranks_text(culprit.rank for culprit in verdict.culprits)
        do = (LANGUAGES[lang].look_first.format(ranks=ranks), *do)[:MOST_DO]
    return structs.replace(verdict, do=do, dont=dont)


def _unexplained(clusters: Sequence[Cluster], verdict: Verdict | None) -> tuple[Cluster, ...]:
    """Return the unknown failures that the verdict does not rest on, earliest first."""
    rest = clusters
    if verdict is not None:
        shown = {(item.file, item.line) for item in verdict.evidence}
        rest = [
            cluster
            for cluster in clusters
            if (cluster.first.file, cluster.first.line) not in shown
            and not WRAPPERS.match(cluster.exception)
        ]
    return tuple(sorted(rest, key=lambda c: (c.first.time or 0.0, c.first.line)))


def _settings(matches: Sequence[LogMatch], kb: KnowledgeBase, lang: str) -> tuple[Note, ...]:
    """Return a note for each setting that has no effect, unless its line is a failure as well."""
    failed = {(m.line.file, m.line.line) for m in matches if m.role in FAILURES}
    notes: dict[str, Note] = {}
    for match in matches:
        record, line = kb.records[match.record], match.line
        if record.category == SETTING and (line.file, line.line) not in failed:
            how = record.workarounds[0].how if record.workarounds else record.root_cause
            note = Note(record.id, line.file, line.line, line.text, say(how, lang))
            notes.setdefault(record.id, note)
    return tuple(notes.values())
