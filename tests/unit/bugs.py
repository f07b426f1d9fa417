"""A rule of diagnosis that raises is skipped in earnest; in the tests it fails the test.

Not in conftest.py, which starts processes: every test that asks it for a fixture counts as one
that does, and scripts/check leaves those out.
"""

from typing import NoReturn

import pytest


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
