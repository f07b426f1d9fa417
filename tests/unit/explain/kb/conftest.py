"""Three records to try things on, and a cache of one's own."""

from pathlib import Path

import pytest

from unstuck.explain.kb.check import gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Record

RECORDS = Path(__file__).parent / "records"
FOUND = gather([RECORDS])


@pytest.fixture
def directory() -> Path:
    return RECORDS


@pytest.fixture
def kb() -> KnowledgeBase:
    return KnowledgeBase(FOUND.records, FOUND.origins)


@pytest.fixture
def barrier(kb: KnowledgeBase) -> Record:
    return kb.records["gloo/monitored-barrier"]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UNSTUCK_KB", raising=False)
