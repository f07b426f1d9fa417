"""Sections past their deadline in ranks that cannot act on it themselves.

A C call that holds the GIL, or SIGSTOP, also stops the rank's own watcher of deadlines. The
deadline is on the page: the agent sees that nobody acts, and acts.
"""

from typing import NamedTuple

from unstuck.observe.probe.page import ACTIONS, AGENT_ACTS_AFTER, Deadline, Page

KILL_AFTER = 2.0
"""Seconds from SIGABRT to SIGKILL."""


class MissedDeadline(NamedTuple):
    """A deadline that the rank did not act on."""

    name: str
    timeout: float
    over: float
    """Seconds past its end."""
    action: str


class MissedDeadlines:
    """Remembers for one rank which missed deadlines were reported already."""

    def __init__(self) -> None:
        self._reported: set[tuple[float, str]] = set()
        self._seen: set[tuple[float, str]] = set()

    def look(self, page: Page, now: float) -> list[MissedDeadline]:
        """Return the deadlines that passed without the rank acting, each once."""
        late = {
            (one.end, one.name): one
            for one in page.deadlines
            if not one.fired and now - one.end > AGENT_ACTS_AFTER
        }
        # Seen twice: a single look may catch a deadline that is just being taken back.
        due = [one for key, one in late.items() if key in self._seen and key not in self._reported]
        self._seen = set(late)
        self._reported = {key for key in self._reported if key in late} | {
            (o.end, o.name) for o in due
        }
        return [_late(one, now) for one in due]

    def still(self, late: MissedDeadline) -> bool:
        """Tell whether a deadline that was reported is still open."""
        return any(name == late.name for _, name in self._reported)


def _late(one: Deadline, now: float) -> MissedDeadline:
    known = one.action < len(ACTIONS)
    return MissedDeadline(
        name=one.name or "(too many names)",
        timeout=round(one.end - one.begin, 3),
        over=round(now - one.end, 3),
        action=ACTIONS[one.action] if known else "report",
    )


def describe(rank: int, late: MissedDeadline, doing: str) -> str:
    """Report it in one line; `doing` says why the rank does not act itself."""
    text = f"rank {rank}: section {late.name!r} has taken {late.timeout:g} s, its timeout, {doing}"
    match late.action:
        case "raise":
            return f"{text}; the exception is raised when it runs again"
        case "call":
            return f"{text}; its on_timeout is called when it runs again"
        case "abort":
            return f"{text}; it is aborted, as the script asks"
        case _:
            return text
