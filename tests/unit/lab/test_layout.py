"""Groups partition the job, and every rank agrees with the others on who is in which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.errors import UsageError
from unstuck.lab.layout import Layout

sizes = st.integers(1, 5)


@given(tp=sizes, pp=sizes, dp=sizes, ep=st.integers(1, 3))
def test_each_kind_of_group_partitions_the_job(tp: int, pp: int, dp: int, ep: int):
    layout = Layout(tp, pp, dp * ep, ep)
    expected = {"tp": tp, "hop": pp, "dp": dp * ep, "ep": ep, "world": layout.size}
    for kind, size in expected.items():
        groups = {layout.group(kind, rank) for rank in range(layout.size)}
        members = [rank for group in groups for rank in group.ranks]
        assert sorted(members) == list(range(layout.size))
        assert {len(group.ranks) for group in groups} == {size}
        assert len({group.name for group in groups}) == len(groups)
        assert all(rank in layout.group(kind, rank).ranks for rank in range(layout.size))


@given(tp=sizes, pp=sizes, dp=sizes)
def test_all_participants_of_a_call_name_the_same_participants(tp: int, pp: int, dp: int):
    layout = Layout(tp, pp, dp)
    for call in layout.step:
        for rank in range(layout.size):
            if call.involves(layout.place(rank)[1]):
                together = layout.participants(call, rank)
                assert rank in together
                assert {layout.participants(call, other) for other in together} == {together}


def test_members_are_one_tuple_for_all():
    layout = Layout(2, 2, 4)
    assert layout.group("dp", 0).ranks is layout.group("dp", 4).ranks


@pytest.mark.parametrize("sizes", [(0, 1, 1, 1), (1, 1, 3, 2)])
def test_what_cannot_be_laid_out_is_refused(sizes: tuple[int, int, int, int]):
    with pytest.raises(UsageError, match="is impossible"):
        Layout(*sizes)
