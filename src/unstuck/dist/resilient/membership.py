"""Which ranks belong to the job after a loss, and how a rank that was left behind gets back in.

Ranks are renumbered whenever the world changes; here each keeps the rank it started with, its
seat. A rank that finds a round closed without it knocks, and waits until the members open the
next round.
"""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import TCPStore

from unstuck.dist.base.peers import listed
from unstuck.dist.rebuilding.meeting import Meeting, Outcome, within
from unstuck.dist.rebuilding.notes import Notes
from unstuck.errors import RebuildError

_KNOCK_EVERY = 0.1


class LeftOutError(RebuildError):
    """The other ranks continued without this one."""


class OverError(RebuildError):
    """The other ranks have finished."""


class Membership:
    """The members of the job as this rank knows them."""

    def __init__(self, notes: Callable[[], Notes], seat: int, size: int) -> None:
        self.seat = seat
        self.size = size
        self.members = tuple(range(size))
        self.round = 0
        self._notes = notes
        self._store: Any = None

    def meet(
        self, minimum: int, settle: float, seconds: float, lost: Callable[[], set[int]]
    ) -> None:
        """Agree with the other survivors on the members of the next round.

        The round is closed as soon as all members that are not `lost` by then have arrived;
        otherwise when no new one has arrived for `settle` seconds.

        Raises:
            LeftOutError: the others have agreed without this rank.
            RebuildError: fewer than `minimum` arrived in time, or the notes cannot be read.
        """
        rule = _Rule(self, minimum, settle, lost)
        until = time.monotonic() + seconds

        def agree() -> tuple[int, list[int]]:
            meeting = Meeting(self._notes(), self.seat, range(self.size), rule, until)
            number = self.round
            while (outcome := meeting.outcome(number)) is not None:
                self._checked(outcome, number)
                number += 1
            return number + 1, self._checked(meeting.join(number), number)

        self.round, members = within(seconds + 1.0, agree)
        self.members = tuple(members)

    def _checked(self, outcome: Outcome, number: int) -> list[int]:
        if isinstance(outcome, str):
            self.round = number + 1
            raise RebuildError(outcome)
        if self.seat not in outcome:
            raise LeftOutError(f"the other ranks continued without rank {self.seat}")
        return outcome

    def wait_outside(self, seconds: float) -> None:
        """Knock and wait until the members open a round that this rank may join.

        Raises:
            RebuildError: they did not in time.
        """
        within(seconds + 1.0, lambda: self._wait_outside(self._notes(), seconds))

    def _wait_outside(self, notes: Notes, seconds: float) -> None:
        notes.write(f"knock/{self.seat}", "here")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            members, leader, over = notes.read(
                [f"{self.round}/members", f"{self.round}/leader", "over"]
            )
            if over is not None:
                raise OverError("the other ranks have finished the training without this one")
            if members is not None:
                self.round += 1
            elif leader is not None:
                return
            else:
                time.sleep(_KNOCK_EVERY)
        raise RebuildError("the other ranks have not let this one back in", hint="end this process")

    def store(self, address: str, seconds: float) -> Any:
        """Return a store for the members of this round alone; it lives in the first of them."""
        limit = timedelta(seconds=seconds)

        def make() -> Any:
            notes, key = self._notes(), f"{self.round}/store"
            if self.seat == self.members[0]:
                made = TCPStore(address, 0, is_master=True, timeout=limit, wait_for_workers=False)
                notes.write(key, json.dumps([address, made.port]))
                return made
            until = time.monotonic() + seconds
            while (note := notes.read([key])[0]) is None:
                if time.monotonic() > until:
                    raise RebuildError(f"rank {self.members[0]} has not created a store to meet in")
                time.sleep(notes.poll_every)
            host, port = json.loads(note)
            return TCPStore(host, port, is_master=False, timeout=limit, wait_for_workers=False)

        self._store = within(seconds + 1.0, make)
        return self._store

    def is_doorkeeper(self) -> bool:
        """Tell whether this rank is the one that lets others back in."""
        return len(self.members) < self.size and self.seat == self.members[0]

    def knocking(self, notes: Notes) -> list[int]:
        """Return the seats that wait to be let back in."""
        outside = sorted(set(range(self.size)) - set(self.members))
        knocks = notes.read([f"knock/{seat}" for seat in outside])
        return [seat for seat, knock in zip(outside, knocks, strict=True) if knock is not None]

    def close(self) -> None:
        """Note that the training is over, for ranks that wait outside."""
        self._notes().write("over", "yes")

    def forget_knocks(self) -> None:
        """Delete the knocks of the members."""
        notes = self._notes()
        for seat in self.members:
            notes.delete(f"knock/{seat}")


class _Rule:
    """Enough ranks must join, and all of those that are not lost."""

    wish = "here"

    def __init__(
        self, membership: Membership, minimum: int, settle: float, lost: Callable[[], set[int]]
    ) -> None:
        self._membership = membership
        self._minimum = minimum
        self._settle = settle
        self._lost = lost

    def decide(self, joined: dict[int, str], quiet: float) -> Outcome | None:
        """See `Rule`."""
        if len(joined) < self._minimum:
            return None
        if len(joined) == self._membership.size or quiet > self._settle:
            return sorted(joined)
        # Unless a loss is known, a member that is merely late must not be left behind.
        members = set(self._membership.members)
        lost = self._lost() & members
        return sorted(joined) if lost and joined.keys() >= members - lost else None

    def decide_late(self, joined: dict[int, str]) -> Outcome:
        """See `Rule`."""
        if len(joined) >= self._minimum:
            return sorted(joined)
        return f"only {listed(joined)} arrived to continue, and at least {self._minimum} must"
