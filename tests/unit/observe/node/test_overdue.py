"""Deadlines on the page of a rank that cannot act on them itself."""

import pytest

from unstuck.observe.node.overdue import MissedDeadline, MissedDeadlines, describe
from unstuck.observe.probe.page import Deadline, Page


def page(*deadlines: Deadline) -> Page:
    return Page(0, 0.0, 0, 0.0, 0, 0.0, "", {}, deadlines)


def deadline(end: float = 100.0, *, fired: bool = False, action: int = 1) -> Deadline:
    return Deadline(end, end - 30, "load", action, fired)


def test_deadline_is_told_once_after_the_rank_had_its_chance():
    overdue = MissedDeadlines()
    assert overdue.look(page(deadline()), 99.0) == []
    assert overdue.look(page(deadline()), 100.4) == []
    assert overdue.look(page(deadline()), 100.6) == [], "seen late for the first time"
    assert overdue.look(page(deadline()), 100.7) == [MissedDeadline("load", 30.0, 0.7, "dump")]
    assert overdue.look(page(deadline()), 100.8) == []
    assert overdue.still(MissedDeadline("load", 30.0, 0.7, "dump"))
    assert overdue.look(page(), 100.9) == []
    assert not overdue.still(MissedDeadline("load", 30.0, 0.7, "dump"))


def test_rank_that_acts_itself_is_left_alone():
    overdue = MissedDeadlines()
    for now in (101.0, 102.0, 103.0):
        assert overdue.look(page(deadline(fired=True)), now) == []


def test_the_next_deadline_of_the_same_section_is_told_again():
    overdue = MissedDeadlines()
    for end in (100.0, 200.0):
        overdue.look(page(deadline(end)), end + 1)
        assert len(overdue.look(page(deadline(end)), end + 1.1)) == 1


def test_action_of_a_newer_version_is_reported():
    overdue = MissedDeadlines()
    overdue.look(page(deadline(action=200)), 101.0)
    assert overdue.look(page(deadline(action=200)), 101.1)[0].action == "report"


@pytest.mark.parametrize(
    ("action", "end"),
    [
        ("report", "while it is stopped"),
        ("raise", "while it is stopped; the exception is raised when it runs again"),
        ("abort", "while it is stopped; it is aborted, as the script asks"),
    ],
)
def test_words(action: str, end: str):
    said = describe(3, MissedDeadline("load", 30.0, 0.7, action), "while it is stopped")
    assert said == f"rank 3: section 'load' has taken 30 s, its timeout, {end}"
