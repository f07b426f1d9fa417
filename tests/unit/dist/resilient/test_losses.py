"""When a rank counts as lost: a verdict names it, its process is gone, or a step takes too long."""

import os
import threading
from typing import Any

import pytest

from notes_in_memory import MemoryNotes
from unstuck.dist.missing.answers import machine, started
from unstuck.dist.resilient import losses
from unstuck.dist.resilient.losses import Losses, is_loss
from unstuck.dist.resilient.membership import Membership


class Roll:
    """What the roll call knows about rank 1, whose process has ended."""

    def __init__(self) -> None:
        self.prepared: list[int] = []

    def prepare(self, ranks: list[int]) -> None:
        self.prepared = ranks

    def record(self, rank: int) -> dict[str, Any] | None:
        if rank != 1:
            return None
        return {"pid": os.getpid(), "started": started(os.getpid()) + "0", "machine": machine()}


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    called = threading.Event()
    monkeypatch.setattr(losses, "give_up", called.set)
    monkeypatch.setattr(losses.rollcall, "current", Roll)
    return called


def watched(patience: float | None = None, size: int = 4) -> Losses:
    notes = MemoryNotes()
    return Losses(Membership(lambda: notes, 0, size), lambda: notes, patience)


def verdict(cause: str, *ranks: int) -> dict[str, Any]:
    return {"cause": cause, "culprits": [{"rank": rank} for rank in ranks]}


def test_a_fatal_verdict_ends_the_wait_for_its_culprit(given_up: threading.Event) -> None:
    watch = watched()
    watch._on_verdict(verdict("process-stopped", 3))
    assert given_up.is_set()
    assert 3 in watch.lost()()
    watch.forget()
    assert 3 not in watch.lost()()


@pytest.mark.parametrize(
    "heard",
    [verdict("straggler", 3), verdict("process-stopped", 0), verdict("process-stopped", 9), {}],
    ids=["may still arrive", "this rank itself", "not a member", "no culprit"],
)
def test_other_verdicts_change_nothing(given_up: threading.Event, heard: dict[str, Any]) -> None:
    watch = watched()
    watch._on_verdict(heard)
    assert not given_up.is_set()
    assert watch.lost()() <= {1}


def test_a_neighbour_whose_process_is_gone_is_lost(given_up: threading.Event) -> None:
    assert watched().lost()() == {1}


def test_only_ranks_of_this_host_are_looked_up(
    given_up: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert watched()._neighbours() == [1]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert watched().lost()() == set()


def test_a_step_that_takes_too_long_is_given_up(
    given_up: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "_LOOK_EVERY", 0.001)
    with watched(patience=0.01).watching():
        assert given_up.wait(10)


def test_the_first_member_notices_who_is_back(
    given_up: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "_LOOK_EVERY", 0.001)
    watch = watched()
    watch._membership.members = (0, 1, 2)
    watch._notes().write("knock/3", "here")
    seen = threading.Event()
    monkeypatch.setattr(
        Losses,
        "returning",
        property(lambda _: [], lambda _, who: who and seen.set()),
        raising=False,
    )
    with watch.watching():
        assert seen.wait(10)


@pytest.mark.parametrize(
    ("error", "loss"),
    [
        (RuntimeError("Connection closed by peer [127.0.0.1]:4000"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("Connection closed by peer [127.0.0.1]:4000"), False),
    ],
)
def test_only_errors_of_the_connection_are_losses(error: Exception, loss: bool) -> None:
    assert is_loss(error) is loss
