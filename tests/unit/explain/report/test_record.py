"""A record is outlined the same way for the terminal and for the web."""

import re
from pathlib import Path

import pytest

from unstuck.explain.kb import words
from unstuck.explain.kb.check import gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Role, Tier
from unstuck.explain.report import record as reports
from unstuck.model.logs import LogFact
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
