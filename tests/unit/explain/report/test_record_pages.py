"""A record reads well in a browser, in both languages, and cannot do harm."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from unstuck.errors import WorldError
from unstuck.explain.kb.check import gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Text
from unstuck.explain.report import record_pages

FOUND = gather([Path(__file__).parents[1] / "kb" / "records"])
KB = KnowledgeBase(FOUND.records)
BARRIER = KB.records["gloo/monitored-barrier"]


class Tags(HTMLParser):
    """Collects what a browser would load or run, and whether tags are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.targets: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_export_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    record_pages.export(KB, tmp_path / "site")

    bundle = json.loads((tmp_path / "site" / "records.json").read_text())
    assert bundle["schema"] == "unstuck.records/1"
    assert [record["id"] for record in bundle["records"]] == sorted(KB.records)
    for page in (tmp_path / "site").rglob("*.html"):
        tags = Tags(page.read_text())
        assert tags.open == []
        for target in tags.targets:
            assert target.startswith("https://") or (page.parent / target).is_file()
        assert "<link" not in page.read_text()
        assert "src=" not in page.read_text()


def test_page_has_both_languages(tmp_path: Path) -> None:
    tags = Tags(record_pages.record_page(BARRIER, KB))

    assert BARRIER.title.en in tags.text
    assert BARRIER.title.zh in tags.text
    assert BARRIER.dead_ends[0].why.zh in tags.text


def test_markup_in_a_record_stays_text() -> None:
    evil = replace(
        BARRIER,
        title=Text("<script>alert(1)</script>", "脚本 <b>"),
        signature='"><img src=x onerror=alert(1)>',
        sources=('https://x/"><script>',),
    )
    for page in (
        record_pages.record_page(evil, KnowledgeBase([evil])),
        record_pages.index_page(KnowledgeBase([evil])),
    ):
        assert page.count("<script>") == 1
        assert "<img" not in page
        assert Tags(page).open == []


def test_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(WorldError, match="cannot write to"):
        record_pages.export(KB, tmp_path / "file" / "site")
