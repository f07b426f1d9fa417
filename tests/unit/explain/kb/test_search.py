"""People find a record by words, by a message, by an alias that nobody prints, in Chinese."""

import pytest

from unstuck.explain.kb.load import KnowledgeBase

FOUNDING = "RuntimeError: [torch.distributed] Barrier timeout after 600000 ms"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("watchdog", "nccl/watchdog"),
        ("monitored barrier", "gloo/monitored-barrier"),
        ("names-the-rank", "gloo/monitored-barrier"),
        ("nccl/watchdog", "nccl/watchdog"),
        ("看门狗", "nccl/watchdog"),
        ("受监控的屏障", "gloo/monitored-barrier"),
        ("[Rank 0]: Rank 9 failed to pass monitoredBarrier in 77 ms", "gloo/monitored-barrier"),
        (FOUNDING, "pytorch/barrier-timeout"),
        (FOUNDING.replace("600000", "1800000"), "pytorch/barrier-timeout"),
    ],
)
def test_best_record_comes_first(kb: KnowledgeBase, query: str, first: str) -> None:
    assert kb.search(query)[0].id == first


def test_alias_that_nobody_prints_leads_to_the_real_messages(kb: KnowledgeBase) -> None:
    found = {record.id for record in kb.search(FOUNDING, limit=3)}

    assert found == {"pytorch/barrier-timeout", "nccl/watchdog", "gloo/monitored-barrier"}


@pytest.mark.parametrize("query", ["", "   ", "xylophone", "12345", "…", "(((", "\x00"])
def test_words_of_no_record_find_none(kb: KnowledgeBase, query: str) -> None:
    assert kb.search(query) == []


def test_limit_is_kept(kb: KnowledgeBase) -> None:
    assert len(kb.search("timeout")) > 1
    assert len(kb.search(["timeout", "barrier"], limit=1)) == 1
