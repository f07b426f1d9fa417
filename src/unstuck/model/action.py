"""What may be done about a verdict."""

from enum import StrEnum

from msgspec import Struct


class Action(StrEnum):
    """All actions, from the mildest to the hardest."""

    DUMP = "dump"
    """Store the incident."""
    REPORT = "report"
    """Show the verdict to the people who watch the job."""
    NOTIFY = "notify"
    """Notify people who do not watch it: a web hook, a command."""
    WAIT = "wait"
    """Wait whether it passes."""
    CHECKPOINT = "checkpoint"
    """Let the surviving ranks save what they have (`@unstuck.on_stall`)."""
    RAISE = "raise"
    """Raise `StallError` in the surviving ranks, also when they sit in a collective."""
    RESTART = "restart"
    """End all ranks, so that the launcher restarts them at once."""
    EXCLUDE = "exclude"
    """Restart without the culprit's node."""
    STOP = "stop"
    """End the job, with an exit code that tells the scheduler what to do next."""


TELLING = frozenset({Action.DUMP, Action.REPORT, Action.NOTIFY})
"""These do not touch the job; all others may."""


class Step(Struct, frozen=True, omit_defaults=True):
    """One action of a policy with its limit; `restart:3` is `Step(Action.RESTART, times=3)`."""

    action: Action
    seconds: float = 0.0
    """How long it may take; for `exclude`: after how long the node is allowed back, 0: never."""
    times: int = 0
    """At most this often for the same cause and culprit without progress; 0: no own limit."""
    stop: str = ""
    """The name of a stop's exit code."""

    def __str__(self) -> str:
        limit = self.stop or (str(self.times) if self.times else "")
        if self.seconds:
            limit = f"{self.seconds:g}s"
        return f"{self.action}:{limit}" if limit else str(self.action)
