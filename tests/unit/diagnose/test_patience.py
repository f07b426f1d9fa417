"""How long is too long is learned from the job."""

import pytest

from scenes import job
from unstuck.diagnose.patience import patience
from unstuck.model.rank import Pace


@pytest.mark.parametrize(
    ("pace", "seconds"),
    [(Pace(9, 1.0, 5.0), 20.0), (Pace(10, 0.1, 0.2), 3.0), (Pace(500, 2.0, 4.0), 12.0)],
)
def test_three_times_the_longest_gap_with_a_floor_and_a_start_up(
    pace: Pace, seconds: float
) -> None:
    scene = job(2).change(0, pace=pace).change(1, pace=Pace())
    assert patience(scene.snapshot()) == seconds


def test_the_pace_of_a_dead_rank_no_longer_counts() -> None:
    scene = job(2).change(1, pace=Pace(500, 2.0, 50.0)).end(1, 0, 5.0, "exit")
    assert patience(scene.snapshot()) == 3.0
