"""What the error of a timeout says, and what can be done with it."""

import pickle
from typing import Any

import pytest
from torch.distributed import DistError

from unstuck.dist.base.errors import CollectiveTimeout, Overdue
from unstuck.dist.base.peers import Peer
from unstuck.errors import UserError, WorldError

LATE = Peer(1, came=False, doing="in load at a.py:3", state="running")
HERE = Peer(1, came=True, state="running")


def overdue(peer: Peer = LATE, **others: object) -> Overdue:
    values = {"op": "all_reduce", "number": 7, "group": "0", "ranks": (0, 1, 2), "rank": 0}
    return Overdue(**{**values, "timeout": 3.0, "elapsed": 3.002, "peers": {1: peer}, **others})  # type: ignore[arg-type]


def test_it_says_who_is_missing_then_what_holds_now() -> None:
    assert overdue().text() == (
        "all_reduce #7 on the default group (3 ranks): timeout after 3 s on rank 0."
        " Rank 1 has not arrived: in load at a.py:3."
        " It may still complete: do not touch its tensors until then."
    )


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"copied": True}, "Your tensors are as they were before the call."),
        ({"started": False}, "The deadline had passed before it was started."),
        ({"dead": True}, "The group was ended by its own timeout: rebuild() it or leave."),
        (
            {"dead": True, "given_up_by": (2, 4)},
            "The group was given up by rank 2, 4: rebuild() it or leave.",
        ),
        ({"op": "barrier"}, "in load at a.py:3."),
        (
            {"op": "recv", "verb": "send", "peers": {1: Peer(1, came=False)}, "copied": True},
            "call.",
        ),
    ],
)
def test_it_ends_with_the_state_of_group_and_tensors(changes: dict[str, Any], end: str) -> None:
    assert overdue(**changes).text().endswith(end)


def test_when_all_have_arrived_it_says_so() -> None:
    assert "Every rank has arrived: data is not getting through" in overdue(HERE).text()
    other = Peer(1, came=True, state="running", runs="all_gather #7")
    assert "not in the same one: rank 1 runs all_gather #7." in overdue(other).text()


def test_it_can_be_caught_as_a_timeout_and_as_an_error_of_torch() -> None:
    for kind in (TimeoutError, RuntimeError, DistError, WorldError):
        assert issubclass(CollectiveTimeout, kind)


def test_ranks_that_are_neither_missing_nor_silent_are_present() -> None:
    silent = Peer(2, came=None, state="silent")
    error = CollectiveTimeout(overdue(peers={1: LATE, 2: silent}))
    assert (error.missing, error.silent, error.present) == ([1], [2], [0])


def test_without_a_handle_there_is_nothing_to_wait_for() -> None:
    error = CollectiveTimeout(overdue(started=False))
    error.give_up()
    assert not error.started
    with pytest.raises(UserError, match="all_reduce was not started"):
        _ = error.work


def test_it_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(CollectiveTimeout(overdue())))
    assert (error.missing, str(error)) == ([1], overdue().text())
