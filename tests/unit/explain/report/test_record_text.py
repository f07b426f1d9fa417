"""A record reads well in a terminal, in both languages, and cannot do harm."""

import re
from pathlib import Path

from msgspec.structs import replace

from unstuck.explain.kb.check import gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Rate, Text
from unstuck.explain.report import record_text

FOUND = gather([Path(__file__).parents[1] / "kb" / "records"])
KB = KnowledgeBase(FOUND.records)
BARRIER = KB.records["gloo/monitored-barrier"]


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
