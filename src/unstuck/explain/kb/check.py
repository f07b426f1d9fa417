"""Everything that `unstuck kb check` checks before a record may be trusted.

The rules for a single record are in `rules`. Those here need all records: ids are unique, links
lead somewhere, and no record matches the lines of another unless the two are linked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from unstuck.errors import RecordError
from unstuck.explain.kb import read, rules
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.match import Matcher
from unstuck.explain.kb.schema import Record

Finding = tuple[str, str, str]
"""Id of a record, a field, and what is wrong with it."""


class Problem(Struct, frozen=True):
    """One thing wrong with one record."""

    file: str
    """Its file, or its id where it has none."""
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.field}: {self.message}"


class Found(Struct, frozen=True):
    """The readable records in some directories, and what is wrong with the other files."""

    records: tuple[Record, ...]
    origins: dict[str, str]
    problems: tuple[Problem, ...]


def check(
    records: Iterable[Record],
    origins: Mapping[str, str] | None = None,
    *,
    among: Iterable[Record] = (),
) -> list[Problem]:
    """Return everything that is wrong with these records.

    Args:
        records: those to check.
        origins: the file of each id, for the messages.
        among: other records that they may link to and must not conflict with.

    Example:
        for problem in check(load().records.values()):
            print(problem)
    """
    mine = list(records)
    given = {record.id for record in mine}
    kb = KnowledgeBase([*(r for r in among if r.id not in given), *mine])
    places = origins or {}
    found = [(record.id, *finding) for record in mine for finding in rules.check_record(record)]
    return [
        Problem(places.get(record_id, record_id), field, message)
        for record_id, field, message in (*found, *_check_together(mine, kb))
    ]


def gather(roots: Sequence[Path]) -> Found:
    """Read all records below these directories; broken ones become problems."""
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
    """Split the field off from msgspec's `... - at `$.causes[0].cause``."""
    text, _, place = message.partition(" - at `$")
    return place.rstrip("`").lstrip(".") or "file", text


def _check_together(mine: Sequence[Record], kb: KnowledgeBase) -> Iterator[Finding]:
    for record in mine:
        yield from _check_links(record, kb)
    usable = [r for r in kb.records.values() if not any(map(rules.regex.problem, r.patterns))]
    matcher = Matcher(KnowledgeBase(usable))
    given = {record.id for record in mine}
    for record in kb.records.values():
        for number, line in enumerate(record.must_match):
            for found, _, _ in matcher.confirm(line):
                if found == record.id or _linked(record, kb.records[found]):
                    continue
                if found in given:
                    yield found, "patterns", f"match a line of {record.id}: {rules.short(line)}"
                else:
                    yield record.id, f"must_match[{number}]", f"is also matched by {found}"


def _check_links(record: Record, kb: KnowledgeBase) -> Iterator[Finding]:
    for field, target in record.links():
        if target == record.id:
            yield record.id, field, "leads to the record itself"
        elif target not in kb.records:
            yield record.id, field, f"there is no record {target}"
    parent = kb.records.get(record.refines)
    if parent and not parent.patterns:
        message = f"{parent.id} has no pattern of its own, so it can never be refined"
        yield record.id, "refines", message


def _linked(one: Record, other: Record) -> bool:
    return other.id in {target for _, target in one.links()} or one.id in {
        target for _, target in other.links()
    }
