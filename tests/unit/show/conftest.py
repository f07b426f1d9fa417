"""Runs to look at."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from scenes import one_sleeps
from served_runs import ServedRun
from unstuck.model.snapshot import Snapshot
from unstuck.show import runs

Serve = Callable[..., ServedRun]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Serve]:
    """Let a job run below runs/ of an empty directory; by default rank 2 of 4 sleeps."""
    monkeypatch.chdir(tmp_path)
    # Other jobs of this machine are none of this test's business.
    monkeypatch.setattr(runs, "_LIVE_PARENTS", (tmp_path / "memory",))
    served: list[ServedRun] = []

    def start(name: str = "7", snapshot: Snapshot | None = None) -> ServedRun:
        served.append(ServedRun(tmp_path / "runs" / name, snapshot or one_sleeps().snapshot()))
        return served[-1]

    yield start
    for one in served:
        one.close()
