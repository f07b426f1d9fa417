"""A record reads well in a terminal and in a browser, in both languages, and cannot do harm."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from unstuck.errors import WorldError
from unstuck.explain.kb import words
from unstuck.explain.kb.check import gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Rate, Role, Text, Tier
from unstuck.explain.report import record as reports
from unstuck.explain.report import record_pages, record_text
from unstuck.model.log import LogFact
from unstuck.model.verdict import Cause

FOUND = gather([Path(__file__).parents[1] / "kb" / "records"])
KB = KnowledgeBase(FOUND.records)
BARRIER = KB.records["gloo/monitored-barrier"]


def test_every_word_of_the_vocabularies_is_there_in_both_languages() -> None:
    for table, vocabulary in (
        (words.ROLES, Role),
        (words.TIERS, Tier),
        (words.CAUSES, Cause),
        (words.FACTS, LogFact),
    ):
        assert set(table) == set(vocabulary)
        for text in table.values():
            assert re.search(r"[\u4e00-\u9fff]", text.zh)
            assert text.en.isascii()


def test_page_answers_in_the_order_in_which_people_ask() -> None:
    out = record_text.render(BARRIER, KB, width=80, colour=False)

    assert re.findall(r"^## (.*)$", out, re.MULTILINE) == [
        "What it says",
        "What it means",
        "How to tell the causes apart",
        "What not to try",
        "What helps",
        "Comes after",
        "Links",
    ]
    assert out.startswith("# gloo/monitored-barrier\n\nRanks that did not reach")
    assert max(map(len, out.splitlines())) <= 80
    assert "\n\n\n" not in out


def test_chinese_page_has_chinese_headings_and_texts() -> None:
    out = record_text.render(BARRIER, KB, "zh", width=80, colour=False)

    assert "## 不要尝试" in out
    assert "再加几个屏障" in out
    assert "What" not in out


def test_message_is_never_broken_so_that_it_can_be_copied() -> None:
    watchdog = KB.records["nccl/watchdog"]
    out = record_text.render(watchdog, KB, width=60, colour=False)

    assert f"    {watchdog.must_match[0]}\n" in out


def test_refinement_says_what_it_refines_and_the_parent_lists_it() -> None:
    derived = KB.records["pytorch/barrier-timeout"]
    assert "`nccl/watchdog`, narrowed down by: the collective has one element" in (
        record_text.render(derived, KB, width=100, colour=False)
    )
    parent = record_text.render(KB.records["nccl/watchdog"], KB, width=100, colour=False)
    assert "## When more is known\n\n- pytorch/barrier-timeout\n  A barrier timed out" in parent


def test_escape_sequence_in_a_users_record_does_not_act() -> None:
    evil = replace(BARRIER, title=Text("red \x1b[31m\x07", "红"), signature="\x1b]0;title\x07x")
    out = record_text.render(evil, KB, width=80, colour=False)

    assert "\x1b" not in out
    assert "\x07" not in out


def test_measured_rate_is_shown_with_its_interval() -> None:
    rate = Rate(3, 3, kind="measured", scenario="sleep-rank-1", torch="2.13.0")
    record = replace(BARRIER, workarounds=(replace(BARRIER.workarounds[0], rate=rate),))
    out = record_text.render(record, KB, width=100, colour=False)

    shown = "helped in 3 of 3 measured runs (95 %: 44%-100%), torch 2.13.0, sleep-rank-1"
    assert shown in " ".join(out.split())


@pytest.mark.parametrize(
    ("successes", "runs", "low", "high"), [(0, 10, 0.0, 0.28), (5, 10, 0.24, 0.76), (1, 1, 0.21, 1)]
)
def test_interval_is_that_of_wilson(successes: int, runs: int, low: float, high: float) -> None:
    assert reports.interval(successes, runs) == pytest.approx((low, high), abs=0.01)


def test_thread_is_shown_short_and_linked_whole() -> None:
    address = "https://github.com/NVIDIA/nccl/issues/849"

    assert reports.address("NVIDIA/nccl#849") == address
    assert reports.named(address) == "NVIDIA/nccl#849"
    assert reports.address("torch 2.13 (measured)") == ""
    assert reports.address("javascript:alert(1)") == ""


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
