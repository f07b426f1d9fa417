"""Which ranks go on together after a loss: agreed round by round, in notes that all can read.

Ranks are numbered anew whenever the world changes; here they keep the number they began with,
their seat. A round is opened by ranks that lost a peer, joined by whoever is there, and closed by
the first of them with the list of members. Who finds a round closed without it knocks, and waits
until the members open the next one.
"""

import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from torch._C._distributed_c10d import TCPStore

from unstuck.dist.notes import Notes
from unstuck.dist.peers import listed
from unstuck.errors import RebuildError

_LOOK_EVERY = 0.01
_KNOCKS_EVERY = 0.1
T = TypeVar("T")


class LeftOutError(RebuildError):
    """The others went on without this rank."""


class OverError(RebuildError):
    """The others have finished."""


class Membership:
    """The members of the job as this rank knows them."""

    def __init__(self, notes: Callable[[], Notes], seat: int, size: int) -> None:
        self.seat = seat
        self.size = size
        self.members = tuple(range(size))
        self.round = 0
        self._notes = notes
        self._world: Any = None

    def meet(
        self, minimum: int, settle: float, seconds: float, lost: Callable[[], set[int]]
    ) -> None:
        """Agree with the other survivors on the members of the next round.

        It is closed as soon as all members have come that are not `lost` by then; else when
        nobody new came for `settle` seconds.

        Raises:
            LeftOutError: the others have agreed without this rank.
            RebuildError: fewer than `minimum` came in time, or no notes can be read.
        """
        meeting = _Meeting(self, minimum, settle, time.monotonic() + seconds, lost)
        number, members = _within(lambda: meeting.agree(self._notes()), seconds + 1.0)
        self.round, self.members = number, tuple(members)

    def wait_outside(self, seconds: float) -> None:
        """Knock and wait until the members open a round that this rank may join.

        Raises:
            RebuildError: nobody did in time.
        """
        _within(lambda: self._wait_outside(self._notes(), seconds), seconds + 1.0)

    def _wait_outside(self, notes: Notes, seconds: float) -> None:
        notes.write(f"knock/{self.seat}", "here")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            members, opened, over = notes.read(
                [f"{self.round}/members", f"{self.round}/open", "over"]
            )
            if over is not None:
                raise OverError("the others have finished the training without this rank")
            if members is not None:
                self.round += 1
            elif opened is not None:
                return
            else:
                time.sleep(_KNOCKS_EVERY)
        raise RebuildError("nobody has let this rank in again", hint="end this process")

    def store(self, address: str, seconds: float) -> Any:
        """Return a store of the members of this round alone; it lives in the first of them."""

        def make() -> Any:
            notes, key = self._notes(), f"{self.round}/store"
            limit = timedelta(seconds=seconds)
            if self.seat == self.members[0]:
                made = TCPStore(address, 0, is_master=True, timeout=limit, wait_for_workers=False)
                notes.write(key, json.dumps([address, made.port]))
                return made
            until = time.monotonic() + seconds
            while (said := notes.read([key])[0]) is None:
                if time.monotonic() > until:
                    raise RebuildError(f"rank {self.members[0]} makes no store to meet in")
                time.sleep(_LOOK_EVERY)
            host, port = json.loads(said)
            return TCPStore(host, port, is_master=False, timeout=limit, wait_for_workers=False)

        self._world = _within(make, seconds + 1.0)
        return self._world

    def knocking(self, notes: Notes) -> list[int]:
        """Return who is outside and wants to come in."""
        outside = sorted(set(range(self.size)) - set(self.members))
        said = notes.read([f"knock/{seat}" for seat in outside])
        return [seat for seat, knock in zip(outside, said, strict=True) if knock is not None]

    def close(self) -> None:
        """Note that the training is over, for those who wait outside."""
        self._notes().write("over", "yes")

    def forget_knocks(self) -> None:
        """Take back the knocks of those who are in."""
        notes = self._notes()
        for seat in self.members:
            notes.delete(f"knock/{seat}")


class _Meeting:
    """One attempt to agree."""

    def __init__(
        self,
        me: Membership,
        minimum: int,
        settle: float,
        until: float,
        lost: Callable[[], set[int]],
    ) -> None:
        self._me = me
        self._minimum = minimum
        self._settle = settle
        self._until = until
        self._lost = lost

    def agree(self, notes: Notes) -> tuple[int, list[int]]:
        """Join the round that is open; return the number of the next one, and the members."""
        number = self._me.round
        said = notes.read([f"{number}/members"])[0]
        while said is not None:
            self._members(said, number)
            number += 1
            said = notes.read([f"{number}/members"])[0]
        return number + 1, self._members(self._join(notes, number), number)

    def _members(self, said: str, number: int) -> list[int]:
        found: Any = json.loads(said)
        if isinstance(found, str):
            self._me.round = number + 1
            raise RebuildError(found)
        if self._me.seat not in found:
            raise LeftOutError(f"the others went on without rank {self._me.seat}")
        return [int(seat) for seat in found]

    def _join(self, notes: Notes, number: int) -> str:
        own = str(self._me.seat)
        notes.write(f"{number}/open", "yes")
        notes.write(f"{number}/join/{own}", "here")
        leads = notes.write_first(f"{number}/leader", own) == own
        joined: set[int] = set()
        changed = time.monotonic()
        while True:
            said, *came = notes.read([f"{number}/members", *self._places(number)])
            if said is not None:
                return said
            now = time.monotonic()
            here = {seat for seat, note in enumerate(came) if note is not None}
            if here != joined:
                joined, changed = here, now
            late = now >= self._until
            if late and len(joined) < self._minimum:
                notes.write_first(f"{number}/members", json.dumps(self._too_few(joined)))
            elif late or (leads and self._is_complete(joined, now - changed)):
                notes.write_first(f"{number}/members", json.dumps(sorted(joined)))
            time.sleep(_LOOK_EVERY)

    def _places(self, number: int) -> list[str]:
        return [f"{number}/join/{seat}" for seat in range(self._me.size)]

    def _is_complete(self, joined: set[int], quiet: float) -> bool:
        if len(joined) < self._minimum:
            return False
        if len(joined) == self._me.size or quiet > self._settle:
            return True
        # Without a loss that is known, a member that is only late must not be left behind.
        expected = set(self._me.members) - self._lost()
        return len(expected) < len(self._me.members) and joined >= expected

    def _too_few(self, joined: set[int]) -> str:
        return f"only {listed(joined)} came to go on, and at least {self._minimum} must"


def _within(call: Callable[[], T], seconds: float) -> T:
    """Call something that may never return, in a thread that can be left behind."""
    result: list[T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            result.append(call())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="unstuck-membership", daemon=True)
    thread.start()
    thread.join(timeout=seconds)
    if result:
        return result[0]
    if failed and isinstance(failed[0], RebuildError):
        raise failed[0]
    if failed:
        raise RebuildError(f"the ranks cannot agree: {failed[0]}") from failed[0]
    raise RebuildError("the store that the ranks agree in does not answer")
