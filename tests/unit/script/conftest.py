"""Fixtures of everything that a script imports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from unstuck.observe.probe.page import PageReader, PageWriter
from unstuck.observe.probe.this_process import current
from unstuck.script import section
from unstuck.script.deadlines import watcher


@pytest.fixture
def fresh_sections() -> Iterator[None]:
    """Forget all sections before, and see that none is left open after."""
    current.__init__()
    section._plain.clear()
    section._visits.clear()
    yield
    assert not watcher.open
    current.__init__()
    section._plain.clear()


@pytest.fixture
def page(tmp_path: Path) -> PageReader:
    """Watch this process: return a reader of its page."""
    current.attach(PageWriter(str(tmp_path / "page")))
    return PageReader(str(tmp_path / "page"))
