"""Durations as a person would write them."""

import pytest

from unstuck.diagnose.knobs.words import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.1, "0.1 s"), (77, "77 s"), (90.4, "90.4 s"), (600, "10 min"), (1830, "30 min 30 s"),
     (9000, "2 h 30 min"), (86400, "1 d"), (90061, "1 d 1 h")],
)  # fmt: skip
def test_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
