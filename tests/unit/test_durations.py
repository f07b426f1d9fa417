"""Durations as people and schedulers write them."""

import pytest

from unstuck import durations


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.1, "0.1 s"), (3.14, "3.1 s"), (5.0, "5 s"), (9.97, "10 s"), (77, "77 s"), (119.6, "2 min"),
     (600, "10 min"), (1830, "30 min 30 s"), (3599.9, "1 h"), (4000, "1 h 6 min"),
     (9000, "2 h 30 min"), (86400, "1 d"), (90061, "1 d 1 h")],
)  # fmt: skip
def test_a_duration_is_rounded_to_what_matters(seconds: float, text: str) -> None:
    assert durations.text(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("1.5h", 5400.0), ("2h30m", 9000.0), ("10 min", 600.0), ("500ms", 0.5),
     ("10 sec", 10.0), ("1-00:00:00", 86400.0), ("12:30:00", 45000.0), ("30:00", 1800.0)],
)  # fmt: skip
def test_what_people_and_schedulers_write_is_understood(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "-5", "5 parsecs", "h", "UNLIMITED", "1-2", "::", "1" * 500 + "x", "1e9"]
)
def test_anything_else_is_no_duration(text: str) -> None:
    assert durations.parse(text) is None
