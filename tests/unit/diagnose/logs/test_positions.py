"""What the ranks say they wait in, compared."""

from log_scenes import verdict, wait
from unstuck.model.verdict import Cause


def test_a_rank_with_a_lower_number_is_behind():
    found = verdict([wait(0), wait(1, seq=89), wait(2), wait(3)])
    assert [(c.rank, c.doing) for c in found.culprits] == [
        (1, "is behind: at ALLREDUCE number 89, others at 90")
    ]


def test_numbers_of_different_groups_are_not_compared():
    found = verdict([wait(0, seq=90210), wait(1, seq=90210), wait(2, seq=64), wait(3, seq=64)])
    assert found.culprits == ()
    assert found.cause is Cause.UNKNOWN


def test_of_several_waits_of_one_rank_the_oldest_counts():
    waits = [wait(0, seq=92), wait(0, seq=90), wait(0, seq=91), wait(1), wait(3)]
    found = verdict(waits)
    assert [c.rank for c in found.culprits] == [2]


def test_a_tie_names_both_sides():
    found = verdict([wait(0), wait(1, op="BROADCAST")], world_size=2)
    assert [c.rank for c in found.culprits] == [0, 1]
