"""Regrouping tries again when ranks are lost on the way, and reports the new world."""

from typing import Any

import pytest

from unstuck.dist.base.groups import Group
from unstuck.dist.rebuilding import connecting
from unstuck.dist.resilient import regrouping
from unstuck.dist.resilient.membership import LeftOutError
from unstuck.dist.resilient.regrouping import Regrouping, Settings
from unstuck.errors import RebuildError

SETTINGS = Settings(2, 10, None, 1.0, 60.0, 3600.0)


class Membership:
    """Plays the outcome of each meeting: the members, or an error."""

    seat, size = 0, 4

    def __init__(self, *outcomes: tuple[int, ...] | Exception) -> None:
        self.members = (0, 1, 2, 3)
        self.outcomes = list(outcomes)
        self.happened: list[str] = []

    def meet(self, minimum: int, settle: float, seconds: float, lost: Any) -> None:
        self.happened.append(f"meet without {sorted(lost())}")
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        self.members = outcome

    def wait_outside(self, seconds: float) -> None:
        self.happened.append("wait outside")

    def store(self, address: str, seconds: float) -> str:
        return f"store at {address}"

    def forget_knocks(self) -> None:
        self.happened.append("forget knocks")


class Losses:
    def __init__(self) -> None:
        self.forgotten = False

    def lost(self) -> Any:
        return lambda: {3}

    def forget(self) -> None:
        self.forgotten = True


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Make connecting succeed or fail as the list says; at its end, succeed."""
    outcomes: list[bool] = []

    def connect(*_: Any) -> None:
        if outcomes and not outcomes.pop(0):
            raise RebuildError("the ranks met, but could not connect")

    plan = connecting.Plan(Group(None, "0", (0, 1, 2, 3), 0), None, True, "gloo", None)  # type: ignore[arg-type]
    monkeypatch.setattr(connecting, "plan_of", lambda _: plan)
    monkeypatch.setattr(connecting, "give_up", lambda _: None)
    monkeypatch.setattr(connecting, "connect", connect)
    return outcomes


def regroup(
    world: Any, membership: Membership, settings: Settings = SETTINGS, *, outside: bool = False
) -> Losses:
    losses = Losses()
    of: Any = membership
    watch: Any = losses
    Regrouping(settings, of, watch, outside=outside).regroup()
    return losses


def test_the_new_world_is_reported_once(
    world: Any, connects: list[bool], capfd: pytest.CaptureFixture[str]
) -> None:
    membership = Membership((0, 1, 2))
    assert regroup(world, membership).forgotten
    assert membership.happened == ["meet without [3]", "forget knocks"]
    said = capfd.readouterr().err
    assert "the training continues with 3 of 4 ranks (without rank 3), reconnected in" in said


def test_a_rank_lost_while_connecting_makes_the_others_meet_again(
    world: Any, connects: list[bool]
) -> None:
    connects.append(False)
    membership = Membership((0, 1, 2), (0, 1))
    regroup(world, membership)
    assert membership.happened[:2] == ["meet without [3]", "meet without []"]
    assert membership.members == (0, 1)


def test_it_does_not_try_for_ever(world: Any, connects: list[bool]) -> None:
    connects.append(False)
    settings = Settings(2, 10, None, 1.0, 0.0, 3600.0)
    with pytest.raises(RebuildError, match="could not connect"):
        regroup(world, Membership((0, 1, 2)), settings)


def test_a_rank_that_was_left_behind_waits_to_be_let_in(
    world: Any, connects: list[bool], capfd: pytest.CaptureFixture[str]
) -> None:
    membership = Membership(LeftOutError("without us"), (0, 1, 2, 3))
    regroup(world, membership)
    assert membership.happened == ["meet without [3]", "wait outside", "meet without [3]"]
    assert "rank 0 was left behind and waits to be let back in" in capfd.readouterr().err


def test_a_restarted_rank_waits_outside_first(world: Any, connects: list[bool]) -> None:
    membership = Membership((0, 1, 2, 3))
    regroup(world, membership, outside=True)
    assert membership.happened == ["wait outside", "meet without [3]"]


def test_a_world_that_did_not_change_is_said_to_be_complete(
    world: Any, connects: list[bool], capfd: pytest.CaptureFixture[str]
) -> None:
    regroup(world, Membership((0, 1, 2, 3)))
    assert "(all are still here)" in capfd.readouterr().err
    assert regrouping._ROUNDS > 1
