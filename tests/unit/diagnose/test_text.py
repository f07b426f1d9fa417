"""Ranks, durations and moments as text."""

from unstuck.diagnose.text import moment, ranks_text, seconds_text, signal_name


def test_ranks_are_written_shortly() -> None:
    assert ranks_text([2]) == "rank 2"
    assert ranks_text([3, 1, 0]) == "ranks 0,1,3"
    assert ranks_text(range(100_000)) == "ranks 0-99999"
    assert ranks_text(range(0, 40, 2)) == "ranks 0,2,4,6,8,10,... (20 in all)"


def test_durations_and_moments() -> None:
    assert (seconds_text(3.14), seconds_text(61.2)) == ("3.1 s", "61 s")
    assert moment(0.5) == "1970-01-01T00:00:00.500Z"


def test_a_signal_is_named_or_at_least_numbered() -> None:
    assert (signal_name(9), signal_name(200)) == ("SIGKILL", "signal 200")
