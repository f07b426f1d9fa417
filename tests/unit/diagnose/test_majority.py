"""The odd ones out are the smaller side; a tie blames both."""

from unstuck.diagnose.majority import vote


def test_smaller_side_is_odd() -> None:
    found = vote({"broadcast": [2], "all_reduce": [0, 1, 3]})
    assert (found.ranks, found.tie) == ([2], False)
    assert [side for side, _ in found.sides] == ["all_reduce", "broadcast"]


def test_equal_sides_are_both_odd() -> None:
    found = vote({"a": [1], "b": [0]})
    assert (found.ranks, found.tie) == ([0, 1], True)


def test_third_side_is_odd_too() -> None:
    assert vote({"a": [0, 1, 2], "b": [3], "c": [4]}).ranks == [3, 4]


def test_a_member_that_is_not_known_counts() -> None:
    found = vote({"a": [0], "b": [1]}, extra="b")
    assert (found.ranks, found.tie) == ([0], False)


def test_one_side_alone_decides_nothing() -> None:
    assert vote({"a": [0, 1]}).tie
