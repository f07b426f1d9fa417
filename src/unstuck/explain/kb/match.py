"""Recognise a line: which records match it, and which fields their patterns name in it.

Patterns are slow, so they only see lines that contain an anchor of their record. Whoever reads
logs looks for `Matcher.literals` first, in all lines at once, and hands over what it found.
"""

import re
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, TypeGuard

from unstuck.explain.kb import hostile, regex
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import FAILURES, Record, Role
from unstuck.model.bounds import MOST_RANKS
from unstuck.observe.logs.find.literals import Literal
from unstuck.observe.logs.reader import Found

WINDOW = hostile.WINDOW
"""Characters of a line that the patterns see, around the anchor."""
BEFORE = 2000
"""How many of these are left of it."""

_LONGEST_FIELD = 2000
_MOST_DIGITS = 18
_LARGEST = 10**_MOST_DIGITS
_COUNT_RANKS = {
    "rank", "global_rank", "local_rank", "first_rank", "world_size", "worker_count", "joined",
    "expected", "nranks", "size",
}  # fmt: skip
"""Fields that say which rank, or how many: an answer counts through to them."""
_TELLING = {"setting", "timeout"}
"""Categories of diagnostic records that name ranks, or settings."""


class _Anchor(NamedTuple):
    text: str
    any_case: bool
    records: tuple[str, ...]


class Matcher:
    """Matches lines against all records of a knowledge base.

    Example:
        Matcher(load()).confirm("[Rank 0]: Rank 3 failed to pass monitoredBarrier in 2000 ms")
    """

    def __init__(self, kb: KnowledgeBase) -> None:
        self._records = kb.records
        self._finders: dict[str, list[Callable[[str], int]]] = {}
        self._compiled: dict[str, list[re.Pattern[str]]] = {}
        anchors = _anchors(kb.records.values())
        for anchor in anchors:
            for record in anchor.records:
                self._finders.setdefault(record, []).append(_finder(anchor))
        # A record that changes no verdict only matters where a line reads like a failure:
        # otherwise most of what is looked at would be progress bars and NCCL's INFO lines.
        wanted = [a for a in anchors if any(_matters(kb.records[r]) for r in a.records)]
        self.literals = [Literal(a.text.encode(), a.any_case) for a in wanted]
        """What a line must contain to be worth a look."""
        self._of_literal = [a.records for a in wanted]

    def confirm(self, line: str, literals: Collection[int] | None = None) -> Found:
        """Return id, role and named fields of every record that matches this line.

        `literals` are the numbers of those found in the line; without them all records are tried.
        """
        records: Iterable[str] = self._finders
        if literals is not None:
            records = dict.fromkeys(r for n in sorted(literals) for r in self._of_literal[n])
        found = ((record, self._fields(record, line)) for record in records)
        return [
            (record, str(self._records[record].role), fields)
            for record, fields in found
            if fields is not None
        ]

    def _fields(self, record: str, line: str) -> dict[str, str] | None:
        for find in self._finders[record]:
            place = find(line)
            if place < 0:
                continue
            first = max(0, place - BEFORE)
            for pattern in self._patterns(record):
                match = pattern.search(line, first, first + WINDOW)
                if match:
                    return {k: v for k, v in match.groupdict().items() if _is_sane(k, v)}
        return None

    def _patterns(self, record: str) -> list[re.Pattern[str]]:
        if record not in self._compiled:
            self._compiled[record] = [re.compile(p) for p in self._records[record].patterns]
        return self._compiled[record]


def _is_sane(name: str, value: str | None) -> TypeGuard[str]:
    """Leave out what nobody meant: a field of pages, and numbers that no job has."""
    if value is None or len(value) > _LONGEST_FIELD:
        return False
    if not value.isdecimal():
        return True
    most = MOST_RANKS if name in _COUNT_RANKS else _LARGEST
    return len(value) <= _MOST_DIGITS and int(value) <= most


def _matters(record: Record) -> bool:
    telling = record.role is Role.DIAGNOSTIC and record.category in _TELLING
    return record.role in FAILURES or telling


def _anchors(records: Iterable[Record]) -> list[_Anchor]:
    """Collect the anchors; those of a record with a pattern that ignores case do so too."""
    needed: dict[tuple[str, bool], list[str]] = {}
    for record in records:
        any_case = any(regex.ignores_case(pattern) for pattern in record.patterns)
        for text in record.anchors if record.patterns else ():
            needed.setdefault((text, any_case), []).append(record.id)
    return [_Anchor(text, case, tuple(ids)) for (text, case), ids in sorted(needed.items())]


def _finder(anchor: _Anchor) -> Callable[[str], int]:
    if not anchor.any_case:
        text = anchor.text
        return lambda line: line.find(text)
    search = re.compile(re.escape(anchor.text), re.IGNORECASE | re.ASCII).search

    def find(line: str) -> int:
        match = search(line)
        return match.start() if match else -1

    return find
