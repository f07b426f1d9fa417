"""Where each rank stands."""

import random

import pytest
from msgspec.structs import replace

from unstuck.diagnose.diagnose import diagnose
from unstuck.diagnose.job.standing import survey
from unstuck.lab.simulate import draw, snapshot


@pytest.mark.parametrize("seed", range(20))
def test_the_order_in_which_ranks_are_given_changes_nothing(seed: int) -> None:
    given = snapshot(draw(seed, ahead=seed % 7, experts=seed % 3 == 0))
    mixed = list(given.ranks)
    random.Random(seed).shuffle(mixed)
    shuffled = replace(given, ranks=tuple(mixed))
    job = survey(shuffled)
    assert list(job.states) == sorted(job.states)
    assert [state.rank for state in job.live] == [
        rank for rank in job.states if job.standing(rank).value == "live"
    ]
    assert diagnose(shuffled) == diagnose(given)
