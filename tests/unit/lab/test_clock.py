"""Seconds that were measured over a suspended machine are not taken for unstuck's."""

import pytest

from unstuck.errors import LabError
from unstuck.lab import clock


def test_a_clock_that_runs_is_trusted_and_counts() -> None:
    watch = clock.Clock()
    watch.check()
    assert 0.0 <= watch.seconds() < 60.0


@pytest.mark.parametrize(("moved", "said"), [(11.0, r"\+11\.0 s"), (-3600.0, r"-3600\.0 s")])
def test_a_machine_that_slept_or_was_set_is_noticed(
    monkeypatch: pytest.MonkeyPatch, moved: float, said: str
) -> None:
    watch = clock.Clock()
    real = clock.time.time
    monkeypatch.setattr(clock.time, "time", lambda: real() + moved)
    with pytest.raises(LabError, match=f"the clock moved by {said}: the machine was suspended"):
        watch.check()


def test_a_small_correction_is_no_reason_to_throw_a_run_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = clock.Clock()
    real = clock.time.time
    monkeypatch.setattr(clock.time, "time", lambda: real() + 0.05)
    watch.check()
