"""Every record that we ship is right: it passes the checker, and each of its lines is tried."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.explain.kb import read
from unstuck.explain.kb.check import check, gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.match import Matcher
from unstuck.explain.kb.schema import Record

FOUND = gather([read.BUILT_IN])
MATCHER = Matcher(KnowledgeBase(FOUND.records))


def lines(field: str) -> list[object]:
    return [
        pytest.param(record, line, id=f"{record.id}-{number}")
        for record in FOUND.records
        for number, line in enumerate(getattr(record, field))
    ]


@pytest.mark.slow
def test_checker_finds_no_problem() -> None:
    problems = [*FOUND.problems, *check(FOUND.records, FOUND.origins)]

    assert [str(problem) for problem in problems] == []


@pytest.mark.parametrize(("record", "line"), lines("must_match"))
def test_line_is_recognised(record: Record, line: str) -> None:
    assert record.id in {found for found, _, _ in MATCHER.confirm(line)}


@pytest.mark.parametrize(("record", "line"), lines("must_not_match"))
def test_line_that_only_looks_alike_is_left_alone(record: Record, line: str) -> None:
    assert record.id not in {found for found, _, _ in MATCHER.confirm(line)}


PIECES = sorted(
    {piece for r in FOUND.records for text in (*r.anchors, *r.must_match) for piece in text.split()}
    | {anchor for record in FOUND.records for anchor in record.anchors}
    | {"0" * 500, " " * 500, "a" * 500, "(" * 50, "\ud800", "\x00", "\x1b[31m"}
)


@given(st.lists(st.sampled_from(PIECES), max_size=200).map(" ".join))
def test_no_line_makes_confirming_slow_or_fail(line: str) -> None:
    began = process_time()
    MATCHER.confirm(line)

    assert process_time() - began < 1
