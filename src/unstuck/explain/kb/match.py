"""Find the records that a log's lines match: all anchors at once, then the patterns.

`scan` runs over raw bytes and only looks for anchors (hyperscan; without it `re` and `in`,
slower, same answer). `confirm` runs the patterns of the records whose anchor a line has.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from unstuck.explain.kb import hostile, regex
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Record

WINDOW = hostile.WINDOW
"""Characters of a line that the patterns see, around the anchor."""
BEFORE = 2000
"""How many of these are left of it."""

Match = tuple[Record, dict[str, str]]
Hits = Callable[[bytes], Iterable[tuple[int, int]]]
"""Bytes -> (an offset inside the line, the number of an anchor in that line), by line."""


class Candidate(NamedTuple):
    """A line with a record's anchor: `data[start:end]`, without its newline."""

    start: int
    end: int
    record: str


class Anchor(NamedTuple):
    """A literal and the records that need it."""

    text: str
    any_case: bool
    records: tuple[str, ...]


class Matcher:
    """Matches lines against all records of a knowledge base; one for each thread.

    Example:
        matcher = Matcher(load())
        for start, end, _ in matcher.scan(data):
            matcher.confirm(data[start:end].decode(errors="replace"))
    """

    def __init__(self, kb: KnowledgeBase, *, hyperscan: bool | None = None) -> None:
        """Take hyperscan where it is installed, or as told."""
        self._records = kb.records
        self.anchors = _anchors(kb.records.values())
        fast = find_spec("hyperscan") is not None if hyperscan is None else hyperscan
        self._hits = _hits(self.anchors, hyperscan=fast)
        self._finders: dict[str, list[Callable[[str], int]]] = {}
        for anchor in self.anchors:
            for record in anchor.records:
                self._finders.setdefault(record, []).append(_finder(anchor))
        self._compiled: dict[str, list[re.Pattern[str]]] = {}

    def scan(self, data: bytes) -> list[Candidate]:
        """Return the lines that have an anchor, in order, once for each line and record.

        Lines end with a newline; the last one may be cut short. Most candidates are real
        matches, but only `confirm` can tell. Hand over at most 2 GB at once.
        """
        found: set[Candidate] = set()
        start, end = 0, -1
        for offset, number in self._hits(data):
            if offset > end:
                start = data.rfind(b"\n", 0, offset) + 1
                end = data.find(b"\n", offset)
                end = len(data) if end < 0 else end
            for record in self.anchors[number].records:
                found.add(Candidate(start, end, record))
        return sorted(found)

    def confirm(self, line: str, records: Iterable[str] | None = None) -> list[Match]:
        """Return the records whose pattern matches this line, with the fields it names.

        Only these records are tried where a scan has already found which can match.
        """
        found: list[Match] = []
        for record in self._finders if records is None else records:
            fields = self._fields(record, line)
            if fields is not None:
                found.append((self._records[record], fields))
        return found

    def _fields(self, record: str, line: str) -> dict[str, str] | None:
        for find in self._finders.get(record, ()):
            place = find(line)
            if place < 0:
                continue
            first = max(0, place - BEFORE)
            for pattern in self._patterns(record):
                match = pattern.search(line, first, first + WINDOW)
                if match:
                    return {k: v for k, v in match.groupdict().items() if v is not None}
        return None

    def _patterns(self, record: str) -> list[re.Pattern[str]]:
        if record not in self._compiled:
            self._compiled[record] = [re.compile(p) for p in self._records[record].patterns]
        return self._compiled[record]


def _anchors(records: Iterable[Record]) -> list[Anchor]:
    """Collect the anchors; those of a record with a pattern that ignores case do so too."""
    needed: dict[tuple[str, bool], list[str]] = {}
    for record in records:
        any_case = any(regex.ignores_case(pattern) for pattern in record.patterns)
        for text in record.anchors if record.patterns else ():
            needed.setdefault((text, any_case), []).append(record.id)
    return [Anchor(text, case, tuple(ids)) for (text, case), ids in sorted(needed.items())]


def _finder(anchor: Anchor) -> Callable[[str], int]:
    if not anchor.any_case:
        text = anchor.text
        return lambda line: line.find(text)
    search = re.compile(re.escape(anchor.text), re.IGNORECASE | re.ASCII).search

    def find(line: str) -> int:
        match = search(line)
        return match.start() if match else -1

    return find


def _hits(anchors: Sequence[Anchor], *, hyperscan: bool) -> Hits:
    if not anchors:
        return lambda _data: ()
    if hyperscan:
        # Installed, but made for another processor or C library.
        with contextlib.suppress(ImportError, OSError):
            return _hyperscan_hits(anchors)
    return _plain_hits(anchors)


def _hyperscan_hits(anchors: Sequence[Anchor]) -> Hits:
    import hyperscan

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[anchor.text.encode() for anchor in anchors],
        ids=list(range(len(anchors))),
        elements=len(anchors),
        flags=[hyperscan.HS_FLAG_CASELESS if anchor.any_case else 0 for anchor in anchors],
        literal=True,
    )

    def hits(data: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        add = found.append
        database.scan(
            data,
            match_event_handler=lambda number, _from, to, _flags, _context: add((to - 1, number)),
        )
        found.sort()
        return found

    return hits


def _plain_hits(anchors: Sequence[Anchor]) -> Hits:
    exact = [(n, anchor.text.encode()) for n, anchor in enumerate(anchors) if not anchor.any_case]
    lower = [(n, a.text.encode().lower()) for n, a in enumerate(anchors) if a.any_case]
    parts = [_tree([text for _, text in exact])] if exact else []
    if lower:
        parts.append(b"(?i:" + _tree([text for _, text in lower]) + b")")
    search = re.compile(b"|".join(parts)).search

    def hits(data: bytes) -> Iterable[tuple[int, int]]:
        place = 0
        while match := search(data, place):
            start = data.rfind(b"\n", 0, match.start()) + 1
            place = data.find(b"\n", match.start())
            place = len(data) if place < 0 else place
            line = data[start:place]
            lowered = line.lower() if lower else b""
            # An alternation finds one literal where several may overlap: look for each.
            yield from ((match.start(), n) for n, text in exact if text in line)
            yield from ((match.start(), n) for n, text in lower if text in lowered)

    return hits


def _tree(texts: Sequence[bytes]) -> bytes:
    """Return a pattern for any of these texts; by shared beginnings, three times as fast."""
    if len(texts) == 1:
        return re.escape(texts[0])
    heads: dict[bytes, list[bytes]] = {}
    for text in texts:
        if not text:
            return b""
        heads.setdefault(text[:1], []).append(text[1:])
    branches = [re.escape(head) + _tree(rest) for head, rest in heads.items()]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"
