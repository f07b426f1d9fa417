"""Two ranks of a real gloo job under the probe; importing torch is dear, so tests share them."""

from collections.abc import Iterator
from typing import NoReturn

import pytest

from pairs import Pair, started


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with started(tmp_path_factory.mktemp("pair")) as job:
        yield job


@pytest.fixture(autouse=True)
def bugs_are_not_survived(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that raises is skipped in earnest; here it fails the test."""
    if "bugs_are_survived" not in request.fixturenames:
        monkeypatch.setattr("unstuck.diagnose.diagnose.note_broken", _raise)


@pytest.fixture
def bugs_are_survived() -> None:
    """Let a rule that raises be skipped, as it is in earnest."""


def _raise(rule: str, error: Exception) -> NoReturn:
    raise AssertionError(f"{rule!r} raised") from error
