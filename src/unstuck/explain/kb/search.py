"""Find records by words, or by a message copied from a log.

A rare word weighs more than a common one, a word of the title more than one of the text. Whoever
searches for an alias of a message also wants the real messages: they come right after it.
"""

import math
import re

from unstuck.explain.kb import regex
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Record

WEIGHTS = (6.0, 5.0, 4.0, 3.0, 1.0)
"""Of id, title, aliases and signature, tags, and the text."""
MATCHED = 1000.0
NAMED = 500.0
PHRASE = 200.0
_NEIGHBOUR = 0.5
_WEAKEST = 0.15
"""Share of the best score below which a record is not worth showing."""

_WORD = re.compile(r"[a-z_][a-z0-9_.]*[a-z0-9_]|[a-z]|\d+|[\u3400-\u4dbf\u4e00-\u9fff]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NO_NAME = re.compile(r"[^a-z0-9_.\u3400-\u9fff]+")
_NO_WORD = re.compile(r"[^a-z0-9\u3400-\u9fff]+")
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+")


def search(kb: KnowledgeBase, query: str, limit: int) -> list[Record]:
    """Return the best records for a query, best first.

    Example:
        search(kb, "barrier timeout", limit=5)
    """
    asked = _words(query)
    fields = {record.id: _fields(record) for record in kb.records.values()}
    rarity = _rarity(asked, fields)
    scores = {
        record.id: _score(record, fields[record.id], asked, query, rarity)
        for record in kb.records.values()
    }
    for record in kb.records.values():
        if scores[record.id] < PHRASE:
            continue
        links = (target for _, target in record.links())
        for neighbour in (*links, *(refined.id for refined in kb.refinements(record.id))):
            if neighbour in scores and scores[neighbour] < PHRASE:
                scores[neighbour] += PHRASE * _NEIGHBOUR
    best = sorted(scores, key=lambda found: (-scores[found], found))
    least = _WEAKEST * min(PHRASE, scores[best[0]]) if best else 0.0
    return [kb.records[found] for found in best if scores[found] > least][:limit]


def _fields(record: Record) -> tuple[str, ...]:
    """Return the searchable texts of a record, the most important first."""
    facts = [cause.evidence for cause in record.causes]
    body = [record.root_cause, *facts, *(w.action for w in record.workarounds)]
    return (
        _index(record.id),
        _index(f"{record.title.en} {record.title.zh}"),
        _index(" ".join((record.signature, record.error_code, *record.aliases))),
        _index(" ".join((*record.tags, record.category, record.domain))),
        _index(" ".join(f"{text.en} {text.zh}" for text in body)),
    )


def _index(text: str) -> str:
    """Return the words of a text, a space before each; `barrier` also finds monitoredBarrier."""
    lowered = f"{text} {_HUMP.sub(' ', text)}".lower()
    return f" {_NO_NAME.sub(' ', lowered)} {_NO_WORD.sub(' ', lowered)}"


def _has(text: str, word: str) -> bool:
    return (word if word[0] >= "\u3400" else f" {word}") in text


def _score(
    record: Record,
    fields: tuple[str, ...],
    asked: list[str],
    query: str,
    rarity: dict[str, float],
) -> float:
    found = 0.0
    for word in asked:
        weights = [w for w, text in zip(WEIGHTS, fields, strict=True) if _has(text, word)]
        found += max(weights, default=0.0) * rarity[word]
    names = (record.id, record.id.rpartition("/")[2], record.error_code.lower())
    if asked and query.strip().lower() in names:
        found += NAMED
    if found and any(_same(query, text) for text in (record.signature, *record.aliases)):
        found += PHRASE
    if _matches(record, query):
        found += MATCHED
    return found


def _rarity(asked: list[str], fields: dict[str, tuple[str, ...]]) -> dict[str, float]:
    def count(word: str) -> int:
        return sum(any(_has(text, word) for text in texts) for texts in fields.values())

    return {word: math.log(1 + len(fields) / (1 + count(word))) for word in asked}


def _words(query: str) -> list[str]:
    """Return the words of a query; a run of Chinese is taken in pairs of characters."""
    words: list[str] = []
    for word in _WORD.findall(query.lower()):
        if word[0] >= "\u3400" and len(word) > 2:
            words += [word[n : n + 2] for n in range(len(word) - 1)]
        elif len(word) > 1:
            words.append(word)
    return list(dict.fromkeys(words))


def _same(query: str, text: str) -> bool:
    """Tell whether a query is this message, whatever its numbers are."""
    asked, known = _bare(query), _bare(text)
    return len(asked) >= 8 and bool(known) and (asked in known or known in asked)


def _bare(text: str) -> str:
    return " ".join(_VARIABLE.sub("0", text.lower()).replace("…", "0").split())


def _matches(record: Record, query: str) -> bool:
    lowered = query.lower()
    return any(anchor.lower() in lowered for anchor in record.anchors) and any(
        re.search(pattern, query) for pattern in record.patterns if not regex.problem(pattern)
    )
