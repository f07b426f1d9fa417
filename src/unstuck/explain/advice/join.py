"""Where `do` and `dont` come from: the situation's texts and a record's, joined by one rule.

A live verdict is about ranks, hosts and processes that are known, so what was written for its
situation comes first; a record adds what it knows where a rank's own words led to it. Logs
say less about the situation than about the message, so there the record comes first. Nothing
is said twice, and nothing is advised that is also advised against.
"""

import re
from collections.abc import Sequence

from unstuck.explain.kb.schema import Record, Text, say

MOST_DO = 4
MOST_DONT = 3

_Pair = tuple[str, str]
"""English, by which texts are compared, and what is shown."""

_TOPICS = tuple(
    re.compile(words, re.IGNORECASE)
    for words in (
        r"\b(?:rais|increas|extend|longer)\w*\b.{0,40}\btimeout|\btimeout=|\bddp_timeout\b",
        r"\bmax[-_ ]restarts\b|\brestart\w* (?:the job|everything|all|training)\b",
        r"\bskip\w*\b.{0,20}\bbatch\b",
        r"\badd\w*\b.{0,20}\bbarriers?\b",
        r"\bnum_workers\b|\bdataloader workers\b",
        r"\bbatch[- _]size\b",
        r"\bempty_cache\b|\bgc\.collect\b",
        r"\bfind_unused_parameters\b",
        r"\bTORCH_DISTRIBUTED_DEBUG\b",
        r"\bpy-spy\b",
        r"\bdmesg\b",
        r"\b(?:ulimit|RLIMIT\w*)\b",
        r"\b(?:less|reduce)\b.{0,20}\bmemory\b",
        r"\bdev/shm\b|\bshm-size\b|\bshared memory\b",
    )
)
"""What advice can be about. Two texts on one topic say the same, or the opposite."""
_SETTING = re.compile(r"\b(?:NCCL|GLOO|TORCH|CUDA|MASTER|OMP|HCCL|UCX|FI)_[A-Z0-9_]+\b")
_WORD = re.compile(r"[a-z][a-z-]{3,}")
_ALIKE = 0.6
"""Share of the shorter text's words from which on two texts say the same."""


def with_record(
    do: Sequence[str], dont: Sequence[str], record: Record | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Add what a record advises to the (English) advice of a situation.

    Example:
        with_record(verdict.do, verdict.dont, kb.get("cuda/out-of-memory"))
    """
    return _chosen(_same(do), _same(dont), *_of(record, "en"))


def record_first(
    do: Sequence[str], dont: Sequence[str], record: Record | None, lang: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a record advises; what the situation does where the record is silent."""
    own_do, own_dont = _of(record, lang)
    return _chosen(own_do or _same(do), own_dont or _same(dont), [], [])


def _chosen(
    do: Sequence[_Pair], dont: Sequence[_Pair], more_do: Sequence[_Pair], more_dont: Sequence[_Pair]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take what comes first as it is, and of the rest what is neither known nor against it."""
    done, left = list(do), list(dont)
    for pair in more_do:
        if not any(_about_the_same(pair, other) for other in (*done, *dont)):
            done.append(pair)
    for pair in more_dont:
        if not any(_about_the_same(pair, other) for other in (*left, *done)):
            left.append(pair)
    return (
        tuple(shown for _, shown in done[:MOST_DO]),
        tuple(shown for _, shown in left[:MOST_DONT]),
    )


def _about_the_same(one: _Pair, other: _Pair) -> bool:
    first, second = one[0], other[0]
    if any(topic.search(first) and topic.search(second) for topic in _TOPICS):
        return True
    if set(_SETTING.findall(first)) & set(_SETTING.findall(second)):
        return True
    words, others = (set(_WORD.findall(text.lower())) for text in (first, second))
    shorter = min(len(words), len(others))
    return bool(shorter) and len(words & others) >= _ALIKE * shorter


def _same(texts: Sequence[str]) -> list[_Pair]:
    return [(text, text) for text in texts]


def _of(record: Record | None, lang: str) -> tuple[list[_Pair], list[_Pair]]:
    if record is None:
        return [], []
    do = [_pair(w.condition, w.action, w.how, lang) for w in record.workarounds]
    return do, [_pair(e.condition, e.action, e.why, lang) for e in record.dead_ends]


def _pair(condition: Text | None, action: Text, detail: Text, lang: str) -> _Pair:
    return _step(condition, action, detail, "en"), _step(condition, action, detail, lang)


def _step(condition: Text | None, action: Text, detail: Text, lang: str) -> str:
    what, more = say(action, lang).rstrip(".。"), say(detail, lang)
    what, more = (what, more) if what else (more, "")
    colon = "：" if lang == "zh" else ": "
    if condition is not None:
        what = _when(say(condition, lang), what, lang)
    return what if more.strip(".。") in {"", what} else f"{what}{colon}{more}"


def _when(condition: str, what: str, lang: str) -> str:
    """Say when a step applies; without that, two of them may seem to contradict each other."""
    bare = condition.rstrip(".。")
    if lang == "zh":
        return f"{what}（{bare.rstrip('时')}时）"
    return f"{what} ({_small(bare)})"


def _small(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
