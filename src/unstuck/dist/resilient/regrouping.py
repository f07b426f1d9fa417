"""Continuing with the ranks that are left: they agree on the members and connect again."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import sockets
from unstuck.dist.base.groups import describe
from unstuck.dist.base.peers import listed
from unstuck.dist.rebuilding import connecting
from unstuck.dist.resilient.losses import Losses
from unstuck.dist.resilient.membership import LeftOutError, Membership
from unstuck.errors import RebuildError
from unstuck.script.deadlines import tell

_ROUNDS = 4
"""More ranks may be lost while the others connect: the timeout is enough for this many rounds."""


@dataclass(frozen=True)
class Settings:
    """The arguments of `unstuck.resilient`, limits in seconds."""

    min_ranks: int
    checkpoint: int
    patience: float | None
    settle: float
    timeout: float
    back: float


class Regrouping:
    """How this rank gets from one world to the next."""

    def __init__(
        self, settings: Settings, membership: Membership, losses: Losses, *, outside: bool
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._losses = losses
        self.outside = outside
        self._address = sockets.address_of(describe(c10d._get_default_group()).name) or "127.0.0.1"

    def regroup(self) -> None:
        """Continue with the ranks that are there: agree on the members and connect them."""
        began = time.monotonic()
        membership = self._membership
        before = membership.members
        plan = connecting.plan_of(None)
        lost = self._losses.lost()
        connecting.give_up(plan)
        inside = self._meet(lost)
        while not self._connect(plan, began):
            # One of those that arrived is lost too: those that are left meet again.
            inside = self._meet(set[int]) and inside
        self._losses.forget()
        # A rank from outside does not know which ranks were together before.
        if inside and membership.seat == next(one for one in membership.members if one in before):
            with contextlib.suppress(Exception):
                membership.forget_knocks()
            self._report(before, time.monotonic() - began)

    def _connect(self, plan: connecting.Plan, began: float) -> bool:
        """Connect the members; False: it failed, and there is time for another round."""
        membership = self._membership
        seconds = self._settings.timeout / _ROUNDS
        old = replace(plan.old, rank=membership.seat, ranks=tuple(range(membership.size)))
        try:
            store = membership.store(self._address, seconds)
            until = time.monotonic() + seconds
            connecting.connect(plan._replace(old=old), list(membership.members), store, until)
        except RebuildError:
            if time.monotonic() - began > self._settings.timeout:
                raise
            return False
        return True

    def _meet(self, lost: Callable[[], set[int]]) -> bool:
        """Agree on the members; False: this rank was outside and has been let in."""
        settings, membership = self._settings, self._membership
        inside = not self.outside
        while True:
            try:
                if self.outside:
                    membership.wait_outside(settings.back)
                    self.outside = False
                membership.meet(settings.min_ranks, settings.settle, settings.timeout, lost)
            except LeftOutError:
                tell(f"rank {membership.seat} was left behind and waits to be let back in")
                self.outside, inside = True, False
            else:
                return inside

    def _report(self, before: tuple[int, ...], took: float) -> None:
        members = self._membership.members
        left, back = set(before) - set(members), set(members) - set(before)
        changes = [f"without rank {listed(left)}"] if left else []
        if back:
            changes.append(f"rank {listed(back)} is back")
        change = ", ".join(changes) or "all are still here"
        count = f"{len(members)} of {self._membership.size} ranks"
        tell(f"the training continues with {count} ({change}), reconnected in {took:.1f} s")
