"""A rank that is a real process, and its watcher."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import PAGE, Child, child, rank_env
from unstuck.observe.node.ranks import RankWatcher

BUSY = """
def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
"""


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Child]:
    """Start a child that has a page but no torch."""
    with child(tmp_path, PAGE + BUSY, rank_env(tmp_path, rank=3)) as started:
        started.do("page.beat(time.monotonic() - 5)")  # nobody beats here: ask by a signal at once
        yield started


@pytest.fixture
def watcher(rank: Child, tmp_path: Path) -> Iterator[RankWatcher]:
    """Watch that child."""
    found = RankWatcher(next(tmp_path.glob("rank-*.page")), "node7", time.monotonic())
    yield found
    found.close(remove=False)
