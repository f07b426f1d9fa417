"""What a pattern promises, read from its parse tree: literals it needs, time it can take.

A log line is written by somebody else, so a pattern must not be one that some line makes run
forever. Two shapes do that: a repeat inside a repeat, and repeats in a row that can match the
same text. Both are refused unless a character between them decides where the first one ends.
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
LONGEST = 8000
"""Characters of a line that a pattern sees, so no repeat is longer."""
MOST_STEPS = 10_000_000
"""A row of repeats that can match the same text may be tried in so many ways."""
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
    if why := _in_a_row(tree):
        return why
    if any(code is op.GROUPREF_EXISTS for code, _ in _flat(tree)):
        return "has a conditional group, of which nobody can say how long it takes"
    return ""


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
                "has a repeat inside a repeat, which some line makes run forever: start or end "
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
    """Several repeats can match the same text."""


class _Repeat(NamedTuple):
    """A repeat to the left: its characters, and the fixed ones that must follow it."""

    chars: frozenset[int]
    steps: int
    """In how many ways it and the repeats before it can divide the text among themselves."""
    open_ended: bool
    since: frozenset[frozenset[int]] = frozenset()

    def shares(self, chars: frozenset[int]) -> bool:
        """Tell whether a repeat over these characters can match the same text."""
        return bool(self.chars & chars) and all(passed & chars for passed in self.since)


def _in_a_row(tree: Items) -> str:
    """Find repeats that can match the same text, with nothing between to separate them."""
    try:
        _walk(tree, [])
    except _Shared:
        return (
            "has two open-ended repeats that can match the same text, or more than two long ones: "
            "bound them, for example .{0,200}"
        )
    return ""


def _walk(items: Items, before: list[_Repeat]) -> list[_Repeat]:
    """Go through the items in the order of the text; return the repeats still undecided."""
    for code, value in items:
        if _fixed((code, value)):
            before = _pass(before, _chars([(code, value)]))
        elif code in _BACKTRACKING and value[1] >= OPEN_END:
            before = _open_ended(value, before)
        elif code in _REPEATS:
            after = _walk(list(value[2]), before)
            found = [] if code is op.POSSESSIVE_REPEAT else _bounded(value, before)
            before = _merged([*(before if value[0] == 0 else []), *after, *found])
        elif code is not op.ASSERT_NOT:
            ways = [_walk(body, before) for body in _bodies(code, value)]
            before = _merged([found for way in ways for found in way]) if ways else before
    return before


def _pass(before: list[_Repeat], chars: frozenset[int]) -> list[_Repeat]:
    return [r._replace(since=r.since | {chars}) for r in before if r.chars & chars]


def _open_ended(value: Any, before: list[_Repeat]) -> list[_Repeat]:
    least, _, body = value
    chars, items = _chars(body), _unwrap(list(body))
    rivals, since = before, frozenset[frozenset[int]]()
    if len(items) > 1:
        rivals = _pass(before, _chars(items[:1])) if _fixed(items[0]) else before
        since = frozenset({_chars(items[-1:])} if _fixed(items[-1]) else ())
    if any(r.open_ended and r.shares(chars) for r in rivals):
        raise _Shared
    found = _Repeat(chars, _steps(chars, LONGEST, rivals), open_ended=True, since=since)
    return [*(before if least == 0 else rivals), found]


def _bounded(value: Any, before: list[_Repeat]) -> list[_Repeat]:
    """Return a bounded repeat of one character that is long enough to count."""
    least, most, body = value
    items = _unwrap(list(body))
    if most - least <= FEW or len(items) != 1 or not _fixed(items[0]):
        return []
    chars = _chars(items)
    return [_Repeat(chars, _steps(chars, most - least, before), open_ended=False)]


def _steps(chars: frozenset[int], length: int, before: list[_Repeat]) -> int:
    steps = length * max((r.steps for r in before if r.shares(chars)), default=1)
    if steps > MOST_STEPS:
        raise _Shared
    return steps


def _merged(repeats: list[_Repeat]) -> list[_Repeat]:
    """Leave out repeats that are no more of a danger than another one."""
    kept: list[_Repeat] = []
    for one in sorted(repeats, key=lambda r: (len(r.since), -r.steps, not r.open_ended)):
        if not any(
            other.chars >= one.chars
            and other.steps >= one.steps
            and other.open_ended >= one.open_ended
            and other.since <= one.since
            for other in kept
        ):
            kept.append(one)
    return kept


def _unwrap(body: Items) -> Items:
    """Return the content of a group if the group is all there is."""
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
    bodies: Sequence[Any] = ()
    if code in _REPEATS:
        bodies = [value[2]]
    elif code is op.SUBPATTERN:
        bodies = [value[3]]
    elif code is op.BRANCH:
        bodies = value[1]
    elif code is op.ATOMIC_GROUP:
        bodies = [value]
    elif code in (op.ASSERT, op.ASSERT_NOT):
        bodies = [value[1]]
    elif code is op.GROUPREF_EXISTS:
        bodies = [value[1], value[2] or ()]
    return [list(body) for body in bodies]


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
