"""Durations as people and schedulers write them."""

import pytest

from unstuck.observe.settings import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("1.5h", 5400.0), ("2h30m", 9000.0), ("10 min", 600.0), ("500ms", 0.5)],
)
def test_what_people_write(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "5 parsecs", "h", "1:30"])
def test_what_is_no_duration(text: str) -> None:
    assert durations.parse(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-00:00:00", 86400.0), ("12:30:00", 45000.0), ("UNLIMITED", None), ("", None)],
)
def test_what_slurm_writes(text: str, seconds: float | None) -> None:
    assert durations.slurm(text) == seconds
