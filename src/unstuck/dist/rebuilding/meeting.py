"""How ranks agree on which of them continue: round by round, in notes that all of them can read.

Every rank that wants to continue joins the open round with a note. The first to join leads: it
closes the round with the list of members, or calls it off with a reason that all who joined get.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from unstuck.dist.rebuilding.notes import Notes
from unstuck.errors import RebuildError

T = TypeVar("T")
Outcome = list[int] | str
"""The members of a closed round, or why it was called off."""
_LOST = "without torchrun the store lives in rank 0 and ends with it: then restart the job"


class Rule(Protocol):
    """When a round is complete."""

    wish: str
    """What this rank writes when it joins."""

    def decide(self, joined: dict[int, str], quiet: float) -> Outcome | None:
        """Decide as the leader; None: wait for more ranks.

        Args:
            joined: what each rank that has joined wrote.
            quiet: seconds since the last one joined.
        """
        ...

    def decide_late(self, joined: dict[int, str]) -> Outcome:
        """Decide when time is up."""
        ...


class Meeting:
    """The rounds of one group, as one of its ranks sees them."""

    def __init__(
        self, notes: Notes, rank: int, ranks: Sequence[int], rule: Rule, until: float
    ) -> None:
        self._notes = notes
        self._rank = str(rank)
        self._ranks = ranks
        self._rule = rule
        self._until = until

    def outcome(self, number: int) -> Outcome | None:
        """Return how a round ended; None: it is still open."""
        note = self._notes.read([f"{number}/members"])[0]
        return None if note is None else json.loads(note)

    def join(self, number: int) -> Outcome:
        """Join a round and wait until it is closed or called off."""
        notes = self._notes
        notes.write(f"{number}/join/{self._rank}", self._rule.wish)
        leads = notes.write_first(f"{number}/leader", self._rank) == self._rank
        joined: dict[int, str] = {}
        changed = time.monotonic()
        while (outcome := self.outcome(number)) is None:
            now = time.monotonic()
            if leads or now >= self._until:
                present = self._joined(number)
                if present != joined:
                    joined, changed = present, now
                self._close(number, joined, now - changed, late=now >= self._until)
            time.sleep(notes.poll_every)
        return outcome

    def _joined(self, number: int) -> dict[int, str]:
        wishes = self._notes.read([f"{number}/join/{rank}" for rank in self._ranks])
        pairs = zip(self._ranks, wishes, strict=True)
        return {rank: wish for rank, wish in pairs if wish is not None}

    def _close(self, number: int, joined: dict[int, str], quiet: float, *, late: bool) -> None:
        rule = self._rule
        decision = rule.decide_late(joined) if late else rule.decide(joined, quiet)
        if decision is not None:
            self._notes.write_first(f"{number}/members", json.dumps(decision))


def within(seconds: float, call: Callable[[], T]) -> T:
    """Make a call that may never return, in a thread that can be left behind.

    Raises:
        RebuildError: it failed, or did not return in time.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name="unstuck-meeting", daemon=True).start()
    try:
        return future.result(max(0.0, seconds))
    except RebuildError:
        raise
    except Exception as error:
        silent = "the store through which the ranks agree does not answer"
        why = f"the ranks could not agree: {error}" if future.done() else silent
        raise RebuildError(why, hint=_LOST) from error
