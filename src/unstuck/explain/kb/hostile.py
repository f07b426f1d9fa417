"""Lines made to slow a pattern down, to find out how long it can take before a log does."""

import re
from collections.abc import Callable, Iterable, Iterator
from time import thread_time

from unstuck.explain.kb import regex

WINDOW = regex.LONGEST
"""Characters of a line that patterns ever see."""
SLOWEST = 0.25
"""Processor seconds that a pattern may take on the worst text."""


def slowest(pattern: str, lines: Iterable[str] = ()) -> float:
    """Return the processor seconds for the worst of many texts made to hurt this pattern.

    The texts grow step by step until one takes too long, so the answer comes soon even for a
    pattern that would need years.
    """
    search = re.compile(pattern).search
    worst = 0.0
    for head, unit in _pumps(pattern, lines):
        worst = max(worst, _grow(search, unit, head))
        if worst > SLOWEST:
            break
    return worst


def _grow(search: Callable[[str], object], unit: str, head: str) -> float:
    size = 16.0
    while True:
        text = (head + unit * (int(size) // len(unit) + 1))[: int(size) + len(head)] + "\x01"
        took = _timed(search, text)
        if took > SLOWEST / 4:
            # A pattern must not be refused because the machine was busy for a moment.
            took = min(took, _timed(search, text))
        if size >= WINDOW or took > SLOWEST:
            return took
        size = min(size * (1.25 if size < 400 else 2.7), WINDOW)


def _timed(search: Callable[[str], object], text: str) -> float:
    began = thread_time()
    search(text)
    return thread_time() - began


def _pumps(pattern: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield a head and what to repeat after it."""
    literals = [text for way in regex.expansions(pattern)[:8] for text in way]
    units = ["a", "0", " ", ", ", "0, ", "(", "[", '"', ":0", "a b ", "/a", "0.", "=", "\u4e00"]
    heads = {"", *literals[:4], "".join(literals[:-1]), *(line[:-1] for line in lines)}
    for head in heads:
        for unit in units:
            yield head, unit
    for unit in {*literals, "".join(literals[:-1]), *lines} - {""}:
        yield "", unit
        yield "", unit[:-1] or unit
