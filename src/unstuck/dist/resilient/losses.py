"""Noticing that a rank is lost, or that one is back."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import held
from unstuck.dist.base.groups import describe
from unstuck.dist.missing import rollcall
from unstuck.dist.missing.answers import state_of
from unstuck.dist.rebuilding.notes import Notes
from unstuck.dist.resilient.membership import Membership
from unstuck.dist.timed.giving_up import give_up
from unstuck.observe.probe.peer_loss import tells_of_a_peer
from unstuck.script import callbacks

FATAL = frozenset(
    {
        "network-partition",
        "node-failure",
        "process-crash",
        "out-of-memory",
        "process-stopped",
        "host-deadlock",
        "rank-left-early",
    }
)
"""Causes after which a rank will not arrive by itself; for the others patience decides."""
_LOOK_EVERY = 0.5


class Losses:
    """What this rank knows about lost and returning ranks, by their seats."""

    def __init__(
        self, membership: Membership, notes: Callable[[], Notes], patience: float | None
    ) -> None:
        self._membership = membership
        self._notes = notes
        self._patience = patience
        self._progress = time.monotonic()
        self._accused: set[int] = set()
        self.returning: list[int] = []
        """Seats of ranks that wait to be let back in."""

    def progressed(self) -> None:
        """Note that a step was completed."""
        self._progress = time.monotonic()

    def forget(self) -> None:
        """Start over with a new world."""
        self._accused.clear()
        self.returning = []

    @contextlib.contextmanager
    def watching(self) -> Generator[None]:
        """Leave the collective when a verdict names a rank that will not arrive."""
        over = threading.Event()
        callback = callbacks.on_verdict(self._on_verdict)
        self.progressed()
        if (roll := rollcall.current()) is not None:
            roll.prepare(self._neighbours())
        threading.Thread(target=self._look, args=(over,), daemon=True).start()
        try:
            yield
        finally:
            over.set()
            callback.close()

    def _on_verdict(self, verdict: Any) -> None:
        ranks = {int(one["rank"]) for one in verdict.get("culprits", ())}
        if verdict.get("cause") not in FATAL or self._membership.seat in ranks:
            return
        lost = ranks & set(self._membership.members)
        if lost:
            self._accused |= lost
            give_up()

    def _look(self, over: threading.Event) -> None:
        """Look for returning ranks, and end a wait that lasts longer than the user's patience."""
        notes: Notes | None = None
        while not over.wait(_LOOK_EVERY):
            try:
                if self._patience and time.monotonic() - self._progress > self._patience:
                    give_up()
                    return
                if self._membership.is_doorkeeper():
                    notes = notes or self._notes()
                    self.returning = self._membership.knocking(notes)
            except Exception:
                return

    def lost(self) -> Callable[[], set[int]]:
        """Return a function that finds the lost seats: named by a verdict, or dead on this host.

        A killed rank still exists when the others first notice, and is gone a moment later.
        """
        membership = self._membership
        accused = self._accused - {membership.seat}
        roll = rollcall.current()
        records = [
            (membership.members[rank], record)
            for rank in self._neighbours()
            if roll is not None and (record := roll.record(rank)) is not None
        ]

        def look() -> set[int]:
            dead = {seat for seat, one in records if state_of(one)[0] in ("gone", "stopped")}
            return accused | dead

        return look

    def _neighbours(self) -> list[int]:
        """Return the other ranks of this host, whose processes the kernel can report on."""
        membership = self._membership
        text = os.environ.get("LOCAL_WORLD_SIZE", "")
        here = max(1, int(text)) if text.isdecimal() else membership.size
        return [
            rank
            for rank, seat in enumerate(membership.members)
            if seat != membership.seat and seat // here == membership.seat // here
        ]


def is_loss(error: Exception) -> bool:
    """Tell whether an exception comes from a change of the world, not from the script."""
    if not isinstance(error, RuntimeError):
        return False
    given_up = c10d.is_initialized() and held.given_up(describe(c10d._get_default_group()))
    return given_up or tells_of_a_peer(str(error))
