"""Which of several processes with the same number is the rank."""

from typing import NamedTuple

import pytest

from unstuck.collect.agent.helpers import helpers


class One(NamedTuple):
    pid: int
    top: int
    joined: bool = False
    alive: bool = True
    rank: int = 0
    ending: bool = False

    @property
    def is_over(self) -> bool:
        return self.ending or not self.alive


WRAPPER = 10


@pytest.mark.parametrize(
    ("story", "candidates", "found"),
    [
        ("a rank that has not joined yet", [One(11, 11)], set()),
        ("a rank that died before it joined", [One(11, 11, alive=False)], set()),
        ("a check below a wrapper runs", [One(11, WRAPPER)], set()),
        ("a check below a wrapper has failed", [One(11, WRAPPER, alive=False)], {11}),
        ("a check below a wrapper is failing", [One(11, WRAPPER, ending=True)], {11}),
        (
            "the training below the wrapper follows the check",
            [One(11, WRAPPER, alive=False), One(12, WRAPPER)],
            {11},
        ),
        (
            "the training has joined, a monitor runs beside it",
            [One(11, WRAPPER), One(12, WRAPPER, joined=True)],
            {11},
        ),
        (
            "the training below the wrapper died: that is the rank's end",
            [One(11, WRAPPER, joined=True, alive=False)],
            set(),
        ),
        ("a helper of a script that imports torch later", [One(12, 11), One(11, 11)], {12}),
        (
            "a rank that was started twice is twice a rank",
            [One(11, 11, joined=True), One(12, 12, joined=True)],
            set(),
        ),
        (
            "a helper of another rank",
            [One(11, 11, joined=True), One(12, 12, rank=1)],
            set(),
        ),
    ],
)
def test_who_is_a_helper(story: str, candidates: list[One], found: set[int]) -> None:
    assert helpers(candidates, lambda pid: pid == WRAPPER) == found, story


def test_when_the_wrapper_ends_its_check_was_the_rank() -> None:
    assert helpers([One(11, WRAPPER, alive=False)], lambda _: False) == frozenset()
