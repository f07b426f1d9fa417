"""Survivors agree on the members; a rank that was left behind knocks and is let back in."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from notes_in_memory import MemoryNotes
from unstuck.dist.resilient.membership import LeftOutError, Membership, OverError
from unstuck.errors import RebuildError

LONG = 20.0


def nobody() -> set[int]:
    return set()


def memberships(size: int) -> list[Membership]:
    notes = MemoryNotes()
    return [Membership(lambda: notes, seat, size) for seat in range(size)]


def together(calls: list[Callable[[], Any]]) -> list[Any]:
    """Make calls at the same time; return what each returned or raised."""
    found: list[Any] = [None] * len(calls)

    def run(place: int) -> None:
        try:
            found[place] = calls[place]()
        except RebuildError as error:
            found[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def meeting(one: Membership, lost: set[int], settle: float = LONG) -> Callable[[], None]:
    return lambda: one.meet(2, settle, LONG, lambda: lost)


def test_members_that_are_not_lost_continue_at_once() -> None:
    ranks = memberships(3)
    assert together([meeting(one, {2}) for one in ranks[:2]]) == [None, None]
    assert [(one.members, one.round) for one in ranks[:2]] == [((0, 1), 1)] * 2
    assert ranks[0].is_doorkeeper()
    assert not ranks[1].is_doorkeeper()


def test_without_a_known_loss_a_late_rank_gets_time_to_settle() -> None:
    ranks = memberships(3)
    began = time.monotonic()
    together([meeting(one, set(), settle=0.1) for one in ranks[:2]])
    assert time.monotonic() - began >= 0.1
    assert ranks[0].members == (0, 1)


def test_too_few_ranks_are_told_why_they_cannot_continue() -> None:
    rank = memberships(3)[1]
    with pytest.raises(RebuildError, match="only 1 arrived to continue, and at least 2 must"):
        rank.meet(2, LONG, 0.05, nobody)


def test_a_rank_that_was_left_behind_is_let_in_in_the_next_round() -> None:
    ranks = memberships(3)
    together([meeting(one, {2}) for one in ranks[:2]])
    late = ranks[2]
    with pytest.raises(LeftOutError, match="continued without rank 2"):
        late.meet(2, LONG, LONG, nobody)

    def come_back() -> None:
        late.wait_outside(LONG)
        late.meet(2, LONG, LONG, nobody)

    returning = threading.Thread(target=come_back)
    returning.start()
    notes = ranks[0]._notes()
    while ranks[0].knocking(notes) != [2]:
        time.sleep(0.001)
    together([meeting(one, set()) for one in ranks[:2]])
    returning.join()
    assert [one.members for one in ranks] == [(0, 1, 2)] * 3
    ranks[0].forget_knocks()
    assert notes.read(["knock/2"]) == [None]


def test_a_rank_outside_is_told_when_the_training_is_over() -> None:
    ranks = memberships(2)
    ranks[0].close()
    with pytest.raises(OverError, match="have finished the training"):
        ranks[1].wait_outside(LONG)


def test_a_rank_that_nobody_lets_in_gives_up() -> None:
    with pytest.raises(RebuildError, match="have not let this one back in"):
        memberships(2)[1].wait_outside(0.01)


def test_the_first_member_creates_the_store_of_the_round() -> None:
    ranks = memberships(2)
    first, second = together([lambda one=one: one.store("127.0.0.1", LONG) for one in ranks])
    first.set("key", "value")
    assert second.get("key") == b"value"
    with pytest.raises(RebuildError, match="rank 0 has not created a store"):
        memberships(2)[1].store("127.0.0.1", 0.01)
