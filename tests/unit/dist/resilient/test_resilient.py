"""`@unstuck.resilient`: ranks are lost, the others continue in the same processes."""

import pytest

import resilient_scenes as scenes
import unstuck
from ranks import play


def test_the_survivors_of_a_dead_rank_continue_from_the_last_copy() -> None:
    found = play(3, scenes.loses_one, "dies")
    assert found[2] == "exit -9"
    members, losses, size, share, weights, seen, longest = found[0]
    assert (members, losses, size) == ((0, 1), 1, 2)
    assert share == pytest.approx(2 / 3)
    assert weights == found[1][4], "the state is the same in all ranks"
    again = seen.index(8, seen.index(9))
    assert seen == [*range(10), *range(8, scenes.STEPS)], seen[again:]
    assert longest < scenes.SETTLE, f"{longest:.1f} s for one known to be gone"


@pytest.mark.parametrize(("second", "where", "timeout"), [(2, "connect", 12), (0, "store", 8)])
def test_a_rank_lost_while_the_others_regroup_is_left_behind_too(
    second: int, where: str, timeout: float
) -> None:
    found = play(4, scenes.loses_another_while_it_regroups, second, where, timeout)
    assert (found[second], found[3]) == ("exit -9", "exit -9")
    left = [rank for rank in range(3) if rank != second]
    for rank in left:
        assert found[rank] == (tuple(left), 2, found[left[0]][2])


def test_an_error_of_the_script_is_raised_there_and_the_others_continue() -> None:
    found = play(3, scenes.loses_one, "fails")
    assert found[2] == "mine"
    assert found[0][:3] == ((0, 1), 1, 2)


def test_a_stopped_rank_is_left_behind_and_let_in_again() -> None:
    found = play(3, scenes.comes_back)
    for rank in range(3):
        members, weights, step, _ = found[rank]
        assert members == (0, 1, 2)
        assert (weights, step) == (found[0][1], found[0][2])
    assert found[0][3] == [2, 3]
    assert found[2][3] == [3]


def test_with_too_few_ranks_the_loss_is_raised_with_the_reason() -> None:
    found = play(3, scenes.too_few)
    why = "the remaining ranks cannot continue: only"
    assert all(why in found[rank] for rank in (0, 1))
    # On a busy machine one of them may give up before the other has arrived.
    assert any(f"{why} 0, 1 arrived" in found[rank] for rank in (0, 1))


@pytest.mark.parametrize("wrong", [{"min_ranks": 0}, {"checkpoint": 0}, {"patience": -1}])
def test_invalid_settings_are_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        unstuck.resilient(**wrong)  # type: ignore[arg-type]
