"""What a record must be before anybody may trust it. `unstuck kb check` prints what is wrong.

The rules of one record stand in `rules`; here are those that need all of them: ids are
unique, links lead somewhere, no record matches another one's lines unless they are linked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from unstuck.errors import RecordError
from unstuck.explain.kb import read, rules
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.match import Matcher
from unstuck.explain.kb.schema import Record


class Problem(Struct, frozen=True):
    """One thing wrong with one record."""

    file: str
    """Its file, or its id where it has none."""
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.field}: {self.message}"


class Found(Struct, frozen=True):
    """What lies in directories of records: the readable ones, and what is wrong with the rest."""

    records: tuple[Record, ...]
    origins: dict[str, str]
    problems: tuple[Problem, ...]


def check(
    records: Iterable[Record],
    origins: Mapping[str, str] | None = None,
    *,
    among: Iterable[Record] = (),
) -> list[Problem]:
    """Return everything that is wrong with these records; an empty list when all is well.

    Args:
        records: those to check.
        origins: the file of each id, for the messages.
        among: other records that they may link to and must not clash with.

    Example:
        for problem in check(load().records.values()):
            print(problem)
    """
    mine = list(records)
    given = {record.id for record in mine}
    kb = KnowledgeBase([*(r for r in among if r.id not in given), *mine])
    places = origins or {}
    found = [
        Problem(places.get(record.id, record.id), field, message)
        for record in mine
        for field, message in rules.check_record(record)
    ]
    return found + _check_together(mine, kb, places)


def gather(roots: Sequence[Path]) -> Found:
    """Read all records below these directories, going on where one is broken."""
    records: list[Record] = []
    origins: dict[str, str] = {}
    problems: list[Problem] = []
    for root in roots:
        for path in read.files(root):
            try:
                record = read.read(path)
            except RecordError as error:
                problems.append(Problem(str(path), *_split(error.message)))
                continue
            expected = read.expected_id(path, root)
            if record.id != expected:
                problems.append(Problem(str(path), "id", f"is {record.id}, must be {expected}"))
            if record.id in origins:
                problems.append(Problem(str(path), "id", f"is also that of {origins[record.id]}"))
            records.append(record)
            origins[record.id] = str(path)
    return Found(tuple(records), origins, tuple(problems))


def _split(message: str) -> tuple[str, str]:
    """Part msgspec's `... - at `$.causes[0].cause`` into field and message."""
    text, _, place = message.partition(" - at `$")
    return place.rstrip("`").lstrip(".") or "file", text


def _check_together(
    mine: Sequence[Record], kb: KnowledgeBase, origins: Mapping[str, str]
) -> list[Problem]:
    found: list[Problem] = []

    def say(record: Record) -> Callable[[str, str], None]:
        place = origins.get(record.id, record.id)
        return lambda field, message: found.append(Problem(place, field, message))

    for record in mine:
        _check_links(record, kb, say(record))
    usable = [r for r in kb.records.values() if not any(map(rules.regex.problem, r.patterns))]
    matcher = Matcher(KnowledgeBase(usable))
    given = {record.id for record in mine}
    for record in kb.records.values():
        for number, line in enumerate(record.must_match):
            for other, _ in matcher.confirm(line):
                if other.id == record.id or linked(record, other):
                    continue
                if other.id in given:
                    say(other)("patterns", f"match a line of {record.id}: {rules.short(line)}")
                else:
                    say(record)(f"must_match[{number}]", f"is also matched by {other.id}")
    return found


def _check_links(record: Record, kb: KnowledgeBase, say: Callable[[str, str], None]) -> None:
    for field, target in links(record):
        if target == record.id:
            say(field, "leads to the record itself")
        elif target not in kb.records:
            say(field, f"there is no record {target}")
    parent = kb.records.get(record.refines)
    if parent and not parent.patterns:
        say("refines", f"{parent.id} has no pattern of its own, so it can never be refined")


def links(record: Record) -> list[tuple[str, str]]:
    """Return every id that a record names, with the field that names it."""
    graph = record.graph
    return [
        *((("refines", record.refines),) if record.refines else ()),
        *((f"graph.leads_to[{n}]", target) for n, target in enumerate(graph.leads_to)),
        *((f"graph.preceded_by[{n}]", target) for n, target in enumerate(graph.preceded_by)),
        *((f"graph.confused_with[{n}]", c.record) for n, c in enumerate(graph.confused_with)),
    ]


def linked(one: Record, other: Record) -> bool:
    """Tell whether one of two records names the other."""
    return any(target == other.id for _, target in links(one)) or any(
        target == one.id for _, target in links(other)
    )
