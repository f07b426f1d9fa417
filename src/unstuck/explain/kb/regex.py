"""What a pattern promises, read from its parse tree: literals it needs, time it can take.

A log line is written by somebody else, so a pattern must not be one that some line makes
run for ever. Two shapes do that: a repeat inside a repeat, and two open-ended repeats that
can share the same text. Both are refused unless a character between them settles where
the first one ends.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

# CPython's own parser of patterns: private, but the same since 3.11, and tested here.
op: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

MOST_EXPANSIONS = 512
FEW = 4
"""A repeat of at most so many times is written out."""
OPEN_END = 1000
"""A repeat up to this many times or more counts as open-ended."""
BROAD = 64
"""A repeat over so many of the 128 ASCII characters matches nearly any text."""

_GAP = "\0"
_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_OTHER = 128
_ALL = frozenset(range(_OTHER + 1))
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_BACKTRACKING = (op.MAX_REPEAT, op.MIN_REPEAT)

Items = Sequence[tuple[Any, Any]]


@lru_cache(maxsize=1024)
def problem(pattern: str) -> str:
    """Return why a pattern must not be used; empty when it may.

    Example:
        problem(r"(a+)+b")   # "has a repeat inside a repeat, ..."
    """
    try:
        re.compile(pattern)
        tree: Items = list(parser.parse(pattern))
    except (re.error, RecursionError, OverflowError) as error:
        return f"does not compile: {error}"
    if why := _nested(tree):
        return why
    if _leads_broadly(tree):
        return "starts with an open-ended repeat: begin with a literal, search finds it anywhere"
    return _pairs(tree)


def ignores_case(pattern: str) -> bool:
    """Tell whether the whole pattern is case-insensitive, as by a leading (?i)."""
    # Python allows such flags only at the start; compiling all patterns to see it takes long.
    flags = _FLAGS.match(pattern)
    return flags is not None and "i" in flags[1]


def expansions(pattern: str) -> list[tuple[str, ...]]:
    r"""Return the literals that a match needs: one tuple for each way the pattern can match.

    Example:
        expansions(r"Connection (reset|refused) by \d+ peers")
        # [("Connection reset by ", " peers"), ("Connection refused by ", " peers")]
    """
    ways = _expand(list(parser.parse(pattern)))
    return [tuple(part for part in way.split(_GAP) if part) for way in ways]


def _expand(items: Items) -> list[str]:
    ways = [""]
    for code, value in items:
        options = _options(code, value)
        if len(ways) * len(options) > MOST_EXPANSIONS:
            options = [_GAP]
        ways = [way + option for way in ways for option in options]
    return ways


def _options(code: Any, value: Any) -> list[str]:
    """Return the texts that one item can stand for; what is not fixed is a gap."""
    if code is op.LITERAL:
        return [chr(value)]
    if code in _REPEATS:
        return _repeated(value)
    if code is op.IN and len(value) <= 4 and all(kind is op.LITERAL for kind, _ in value):
        return [chr(char) for _, char in value]
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return [""]
    ways = [way for body in _bodies(code, value) for way in _expand(body)]
    return ways or [_GAP]


def _repeated(value: Any) -> list[str]:
    least, most, body = value
    ways = _expand(body)
    if most <= FEW and len(ways) == 1:
        return [ways[0] * times for times in range(least, most + 1)]
    if least == 0:
        return ["", *ways] if most == 1 else [_GAP]
    return ways if most == 1 else [f"{way}{_GAP}{way}" for way in ways]


def _leads_broadly(tree: Items) -> bool:
    """Tell whether a search would try a long repeat from every place in the line."""
    for code, value in tree:
        if code is op.AT and value in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return False
        if code is op.SUBPATTERN and value[3]:
            return _leads_broadly(list(value[3]))
        if code in _REPEATS:
            return value[1] >= OPEN_END and len(_chars(value[2])) >= BROAD
        if code not in (op.ASSERT, op.ASSERT_NOT, op.AT):
            return False
    return False


def _nested(items: Items) -> str:
    for code, value in items:
        for body in _bodies(code, value):
            if found := _nested(body):
                return found
        if code in _BACKTRACKING and value[1] > 1 and not _settled(list(value[2])):
            return (
                "has a repeat inside a repeat, which some line makes run for ever: start or end "
                "the inner part with a character that the inner repeat cannot match"
            )
    return ""


def _settled(body: Items) -> bool:
    """Tell whether each round of a repeat ends where only one character allows it to."""
    body = _unwrap(body)
    inner = [(code, value) for code, value in _flat(body) if _varies(code, value)]
    if not inner:
        return True
    every = _chars(inner)
    edges = [item for item in (body[0], body[-1]) if _fixed(item)]
    return any(not (_chars([edge]) & every) for edge in edges)


def _varies(code: Any, value: Any) -> bool:
    return code is op.BRANCH or (code in _BACKTRACKING and value[0] != value[1])


def _fixed(item: tuple[Any, Any]) -> bool:
    return item[0] in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY)


class _Shared(Exception):
    """Two open-ended repeats can match the same text."""


class _Open(NamedTuple):
    """An open-ended repeat to the left: its characters, and the fixed ones since."""

    chars: frozenset[int]
    since: tuple[frozenset[int], ...] = ()


def _pairs(tree: Items) -> str:
    """Find two open-ended repeats that can share text, with nothing between to part them."""
    try:
        _walk(tree, [])
    except _Shared:
        return (
            "has two open-ended repeats that can match the same text: "
            "bound one, for example .{0,200}"
        )
    return ""


def _walk(items: Items, before: list[_Open]) -> list[_Open]:
    """Go through the items in the order of the text; return the repeats still undecided."""
    for code, value in items:
        if _fixed((code, value)):
            before = _pass(before, _chars([(code, value)]))
        elif code in _BACKTRACKING and value[1] >= OPEN_END:
            before = _repeat(value, before)
        elif code in _REPEATS:
            after = _walk(list(value[2]), before)
            before = [*before, *after] if value[0] == 0 else after
        elif code is not op.ASSERT_NOT:
            ways = [_walk(body, before) for body in _bodies(code, value)]
            before = list(dict.fromkeys(o for way in ways for o in way)) if ways else before
    return before


def _pass(before: list[_Open], chars: frozenset[int]) -> list[_Open]:
    return [_Open(o.chars, (*o.since, chars)) for o in before if o.chars & chars]


def _repeat(value: Any, before: list[_Open]) -> list[_Open]:
    least, _, body = value
    chars, items = _chars(body), _unwrap(list(body))
    rivals, since = before, ()
    if len(items) > 1:
        rivals = _pass(before, _chars(items[:1])) if _fixed(items[0]) else before
        since = (_chars(items[-1:]),) if _fixed(items[-1]) else ()
    if any(o.chars & chars and all(s & chars for s in o.since) for o in rivals):
        raise _Shared
    return [*(before if least == 0 else rivals), _Open(chars, since)]


def _unwrap(body: Items) -> Items:
    """Return what is in a group that is all of a repeat."""
    while len(body) == 1 and body[0][0] is op.SUBPATTERN:
        body = list(body[0][1][3])
    return body


def _flat(items: Items) -> Iterator[tuple[Any, Any]]:
    """Yield the items, and those inside groups, branches and repeats."""
    for code, value in items:
        yield code, value
        for body in _bodies(code, value):
            yield from _flat(body)


def _bodies(code: Any, value: Any) -> list[Items]:
    if code in _REPEATS:
        return [list(value[2])]
    if code is op.SUBPATTERN:
        return [list(value[3])]
    if code is op.BRANCH:
        return [list(branch) for branch in value[1]]
    if code is op.ATOMIC_GROUP:
        return [list(value)]
    if code in (op.ASSERT, op.ASSERT_NOT):
        return [list(value[1])]
    return []


def _chars(items: Iterable[tuple[Any, Any]]) -> frozenset[int]:
    """Return the characters these items can match: ASCII codes, and one for all others."""
    return frozenset[int]().union(*(_item_chars(code, value) for code, value in items))


def _item_chars(code: Any, value: Any) -> frozenset[int]:
    if code is op.LITERAL:
        return frozenset({min(value, _OTHER)})
    if code is op.NOT_LITERAL:
        return _ALL - {value}
    if code is op.ANY:
        return _ALL - {10}
    if code is op.IN:
        return _class_chars(value)
    if bodies := _bodies(code, value):
        return frozenset[int]().union(*(_chars(body) for body in bodies))
    return frozenset() if code is op.AT else _ALL


def _class_chars(members: Sequence[tuple[Any, Any]]) -> frozenset[int]:
    found: set[int] = set()
    negated = False
    for kind, value in members:
        if kind is op.NEGATE:
            negated = True
        elif kind is op.LITERAL:
            found.add(min(value, _OTHER))
        elif kind is op.RANGE:
            found.update(min(char, _OTHER) for char in range(value[0], min(value[1], 300) + 1))
        else:
            found |= _CATEGORIES.get(value, _ALL)
    # All other characters share one code, so leaving some of them out leaves the code in.
    return (_ALL - found) | {_OTHER} if negated else frozenset(found)


def _category(pattern: str) -> frozenset[int]:
    other = {_OTHER} if re.match(pattern, "\u4e00") else set[int]()
    return frozenset({char for char in range(_OTHER) if re.match(pattern, chr(char))} | other)


_CATEGORIES = {
    op.CATEGORY_DIGIT: _category(r"\d"),
    op.CATEGORY_NOT_DIGIT: _category(r"\D"),
    op.CATEGORY_SPACE: _category(r"\s"),
    op.CATEGORY_NOT_SPACE: _category(r"\S"),
    op.CATEGORY_WORD: _category(r"\w"),
    op.CATEGORY_NOT_WORD: _category(r"\W"),
}
