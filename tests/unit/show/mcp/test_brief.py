"""Short answers, and a cursor to what was left out."""

import pytest
from msgspec import structs

from scenes import one_sleeps, verdict_of
from unstuck.errors import UsageError
from unstuck.explain.kb.load import load
from unstuck.show.mcp.brief import LONGEST, cut, page_of, record_brief, verdict_brief


def test_pages_cover_everything_once():
    seen: list[int] = []
    cursor = ""
    while True:
        part, cursor = page_of(range(10), cursor, 4)
        seen += part
        if not cursor:
            break
    assert seen == list(range(10))
    assert page_of([], "", 5) == ([], "")
    assert page_of([1], "7", 5) == ([], "")


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "٣", "9" * 20])
def test_an_invented_cursor_is_refused(cursor: str):
    with pytest.raises(UsageError):
        page_of([1], cursor, 5)


def test_a_text_is_cut_to_one_line():
    assert cut("a\n\x1b[31mb") == "a [31mb"
    assert len(cut("x" * 1000)) == LONGEST


def test_many_culprits_are_counted_not_listed():
    verdict = verdict_of(one_sleeps())
    many = structs.replace(verdict, culprits=verdict.culprits * 9)
    brief = verdict_brief(many)
    assert (len(brief.culprits), brief.culprits_left_out) == (4, 5)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_record_can_be_shown(lang: str):
    for record in load(()).records.values():
        brief = record_brief(record, lang)
        assert brief.title
        assert brief.meaning
