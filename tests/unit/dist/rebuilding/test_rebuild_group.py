"""A group that was given up can be rebuilt in place, from all of its ranks or from some."""

import dist_scenes as scenes
from ranks import play


def test_the_world_and_a_sub_group_are_rebuilt() -> None:
    found = play(3, scenes.groups_rebuilt)
    for rank in (0, 1):
        refused, total, took, ranks = found[rank]["hung"]
        assert (total, ranks) == (2.0, [0, 1])
        assert took < 5
        if rank == 0:
            assert refused.startswith("GroupGivenUpError")
        assert found[rank]["all"] == 3.0
        assert found[rank]["some"] == (2.0, rank, 2)
    assert found[2]["all"] == 3.0
    assert found[2]["left out"] == "the group was rebuilt without rank 2, from ranks 0, 1"


def test_different_survivors_are_refused_on_every_rank() -> None:
    found = play(3, scenes.rebuild_differs)
    for rank in (0, 1):
        assert "rank 0 wants [0, 1, 2]; rank 1 wants [0, 1]" in found[rank][0]
    assert [found[rank][1] for rank in range(3)] == [3.0] * 3


def test_a_rank_that_does_not_arrive_is_named_and_the_present_ones_continue() -> None:
    found = play(3, scenes.rebuild_lacks_one)
    for rank in (0, 1):
        failed, total, size = found[rank]
        assert failed == (
            "RebuildError: not every rank arrived in time to rebuild the group: 2 missing"
        )
        assert (total, size) == (2.0, 2)
