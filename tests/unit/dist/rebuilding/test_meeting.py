"""Ranks agree on who continues, whichever of them arrive and in whatever order."""

import threading
import time
from collections.abc import Callable

import pytest

from notes_in_memory import MemoryNotes
from unstuck.dist.base.groups import Group
from unstuck.dist.rebuilding.meeting import Meeting, Outcome, within
from unstuck.dist.rebuilding.rebuild_group import _Rule
from unstuck.errors import RebuildError

LONG = 20.0
GROUP = Group(None, "0", (0, 1, 2), 0)


def meet(
    wishes: dict[int, list[int] | None], seconds: float = LONG, quiet: float = LONG
) -> dict[int, Outcome]:
    """Let every rank of `wishes` join a round in a thread; return what each got."""
    notes = MemoryNotes()
    until = time.monotonic() + seconds
    found: dict[int, Outcome] = {}

    def join(rank: int, wanted: list[int] | None) -> None:
        rule = _Rule(GROUP, wanted, quiet)
        found[rank] = Meeting(notes, rank, GROUP.ranks, rule, until).join(0)

    threads = [threading.Thread(target=join, args=each) for each in wishes.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_all_ranks_get_the_same_members() -> None:
    assert meet({key: [0, 1, 2] for key in range(3)}) == {key: [0, 1, 2] for key in range(3)}


def test_only_the_wanted_ranks_are_waited_for() -> None:
    assert meet({0: [0, 2], 2: [0, 2]}) == {0: [0, 2], 2: [0, 2]}


def test_whichever_are_present_continue_once_nobody_else_arrives() -> None:
    assert meet({0: None, 1: None}, quiet=0.2) == {0: [0, 1], 1: [0, 1]}


def test_a_missing_rank_is_named_to_all_when_time_is_up() -> None:
    reason = "not every rank arrived in time to rebuild the group: 1 missing"
    assert meet({key: [0, 1, 2] for key in (0, 2)}, seconds=0.05) == {0: reason, 2: reason}


def test_different_wishes_end_the_round_for_all() -> None:
    found = meet({0: None, 1: [0, 1]})
    assert found[0] == found[1]
    assert "rank 0 wants whichever are present; rank 1 wants [0, 1]" in found[0]


def test_a_closed_round_keeps_its_outcome() -> None:
    notes = MemoryNotes()
    rule = _Rule(Group(None, "0", (0,), 0), [0], 1.0)
    meeting = Meeting(notes, 0, (0,), rule, time.monotonic() + LONG)
    assert meeting.outcome(0) is None
    meeting.join(0)
    assert meeting.outcome(0) == [0]
    assert meeting.outcome(1) is None


def fail(error: Exception) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def test_a_call_that_never_returns_is_left_behind() -> None:
    with pytest.raises(RebuildError, match="does not answer"):
        within(0.01, threading.Event().wait)
    assert within(LONG, lambda: 7) == 7


def test_errors_of_the_call_become_one_of_rebuilding() -> None:
    with pytest.raises(RebuildError, match=r"^mine$"):
        within(LONG, fail(RebuildError("mine")))
    with pytest.raises(RebuildError, match="could not agree: refused"):
        within(LONG, fail(ConnectionError("refused")))
