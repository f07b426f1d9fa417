"""Cut down to what an agent needs: short texts, few items, and a cursor to the rest."""

from collections.abc import Sequence
from typing import TypeVar

from unstuck.console import clean
from unstuck.diagnose.text import group_text, ranks_text
from unstuck.errors import UsageError
from unstuck.explain.kb.schema import Record, say
from unstuck.model.verdict import Evidence, Verdict
from unstuck.show.mcp.typed import (
    CauseBrief,
    CulpritBrief,
    EvidenceItem,
    OtherCause,
    RecordBrief,
    VerdictBrief,
    Waiting,
)

LONGEST = 400
"""Characters of one text."""
MOST_CULPRITS = 4
MOST_ITEMS = 4
_T = TypeVar("_T")


def cut(text: str, longest: int = LONGEST) -> str:
    """Return one line without control characters, not longer than this.

    Example:
        >>> cut("a\\nb")
        'a b'
    """
    line = clean(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def page_of(items: Sequence[_T], cursor: str, limit: int) -> tuple[list[_T], str]:
    """Return the part that begins at a cursor, and the cursor of the next part.

    Raises:
        UsageError: the cursor is none that was given out.

    Example:
        >>> page_of("abc", "", 2)
        (['a', 'b'], '2')
    """
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise UsageError(f"{cut(cursor, 40)} is no cursor", hint="pass next_cursor as it was given")
    first = int(cursor or 0)
    after = first + limit
    return list(items[first:after]), str(after) if after < len(items) else ""


def verdict_brief(verdict: Verdict) -> VerdictBrief:
    """Return a verdict with its first few culprits, and its evidence counted."""
    stuck = verdict.stuck
    waiting = None
    if stuck is not None:
        waiting = Waiting(
            ranks=ranks_text(stuck.waiting or verdict.victims),
            operation=stuck.op.rsplit(":", 1)[-1],
            number=stuck.number,
            group=cut(group_text(stuck.group, stuck.description), 80),
            group_size=stuck.group_size,
        )
    return VerdictBrief(
        cause=verdict.cause,
        confidence=verdict.confidence,
        because=cut(verdict.because),
        summary=cut(verdict.summary),
        culprits=[
            CulpritBrief(
                rank=one.rank,
                host=cut(one.host, 80),
                doing=cut(one.doing),
                file=cut(one.file),
                line=one.line,
                function=cut(one.function, 80),
                code=cut(one.code),
                pid=one.pid,
                seconds=round(one.seconds, 1),
            )
            for one in verdict.culprits[:MOST_CULPRITS]
        ],
        culprits_left_out=max(0, len(verdict.culprits) - MOST_CULPRITS),
        waiting=waiting,
        since=verdict.since,
        stalled_seconds=round(verdict.stalled_seconds, 1),
        slowdown=round(verdict.slowdown, 2),
        do=[cut(one) for one in verdict.do[:MOST_ITEMS]],
        dont=[cut(one) for one in verdict.dont[:MOST_ITEMS]],
        alternatives=[
            OtherCause(cause=one.cause, decide_by=cut(one.decide_by))
            for one in verdict.alternatives[:MOST_ITEMS]
        ],
        records=list(verdict.records[:MOST_ITEMS]),
        evidence=len(verdict.evidence),
    )


def evidence_item(item: Evidence) -> EvidenceItem:
    """Return one observation."""
    return EvidenceItem(
        source=cut(item.source, 120),
        text=cut(item.text),
        role=item.role,
        file=cut(item.file),
        line=item.line,
    )


def record_brief(record: Record, lang: str) -> RecordBrief:
    """Return what a record says to do and not to try."""
    return RecordBrief(
        id=record.id,
        title=cut(say(record.title, lang)),
        signature=cut(record.signature),
        role=record.role,
        tier=record.tier,
        meaning=cut(say(record.root_cause, lang)),
        causes=[
            CauseBrief(cause=one.cause, evidence=cut(say(one.evidence, lang)))
            for one in record.causes[:MOST_ITEMS]
        ],
        do=[
            cut(f"{say(one.action, lang)}: {say(one.how, lang)}")
            for one in record.workarounds[:MOST_ITEMS]
        ],
        dont=[
            cut(f"{say(one.action, lang)}: {say(one.why, lang)}")
            for one in record.dead_ends[:MOST_ITEMS]
        ],
    )
