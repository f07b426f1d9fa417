"""Lists of members as ranges: short, exact, and never longer than a job can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.collect.parts import from_ranges, to_ranges


@given(st.lists(st.integers(-1, 3_000), max_size=60))
def test_ranges_give_the_numbers_back(members: list[int]):
    assert from_ranges(to_ranges(members)) == tuple(members)


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ([0, 1 << 40, 1], "no job has"),
        ([0, 1_000_000, 1, 0, 1_000_000, 1], "no job has"),
        ([0, 5, 0], "no job has"),
        ([5, 0, 1], ""),
        ([-7, -3, 1], "no job has"),
    ],
)
def test_members_that_no_job_has_are_refused(ranges: list[int], text: str):
    if not text:
        assert from_ranges(ranges) == ()
        return
    with pytest.raises(ConnectionError, match=text):
        from_ranges(ranges)
