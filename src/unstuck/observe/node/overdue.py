"""Sections whose time is over while the rank itself can do nothing about it.

A C call that holds the GIL, or a stopped process, also holds the rank's own watcher of
deadlines. The deadline is on the page: the agent sees that nobody acts, and acts.
"""

from typing import NamedTuple

from unstuck.observe.probe.deadlines import AGENT_ACTS_AFTER
from unstuck.observe.probe.page import Deadline, Page
from unstuck.observe.probe.sections import ACTIONS

KILL_AFTER = 2.0
"""Seconds from the asking end of a process (SIGABRT) to the one that cannot be refused."""


class Late(NamedTuple):
    """A deadline that the rank did not act on."""

    name: str
    timeout: float
    over: float
    """Seconds past its end."""
    action: str


class Overdue:
    """Remembers for one rank which deadlines it has told."""

    def __init__(self) -> None:
        self._told: set[tuple[float, str]] = set()
        self._seen: set[tuple[float, str]] = set()

    def look(self, page: Page, now: float) -> list[Late]:
        """Return the deadlines that passed without the rank acting, each once."""
        late = {
            (one.end, one.name): one
            for one in page.deadlines
            if not one.fired and now - one.end > AGENT_ACTS_AFTER
        }
        # Seen twice: a single look may catch a deadline that is just being taken back.
        due = [one for key, one in late.items() if key in self._seen and key not in self._told]
        self._seen = set(late)
        self._told = {key for key in self._told if key in late} | {(o.end, o.name) for o in due}
        return [_late(one, now) for one in due]

    def still(self, late: Late) -> bool:
        """Tell whether a deadline that was told is still open."""
        return any(name == late.name for _, name in self._told)


def _late(one: Deadline, now: float) -> Late:
    known = one.action < len(ACTIONS)
    return Late(
        name=one.name or "(too many names)",
        timeout=round(one.end - one.begin, 3),
        over=round(now - one.end, 3),
        action=ACTIONS[one.action] if known else "report",
    )


def words(rank: int, late: Late, doing: str) -> str:
    """Say it in one line; `doing` reads on after "and": why the rank does not act itself."""
    text = f"rank {rank}: section {late.name!r} has taken {late.timeout:g} s, its timeout, {doing}"
    match late.action:
        case "raise":
            return f"{text}; the exception comes when it runs again"
        case "call":
            return f"{text}; its on_timeout is called when it runs again"
        case "abort":
            return f"{text}; it is ended, as the script asks"
        case _:
            return text
