"""What may be done about a verdict, and what was done before."""

from enum import StrEnum

from msgspec import Struct

from unstuck.model.verdict import Cause, Verdict


class Action(StrEnum):
    """The acts there are, from the mildest to the hardest."""

    DUMP = "dump"
    """Store the incident."""
    REPORT = "report"
    """Tell the people who watch the job."""
    NOTIFY = "notify"
    """Tell people who do not watch it: a web hook, a command."""
    WAIT = "wait"
    """See whether it passes."""
    CHECKPOINT = "checkpoint"
    """Let the surviving ranks save what they have (`@unstuck.on_stall`)."""
    RAISE = "raise"
    """Raise `StallError` in the surviving ranks, also when they sit in a collective."""
    RESTART = "restart"
    """End all ranks, so that the launcher starts them again at once."""
    EXCLUDE = "exclude"
    """Restart without the culprit's node."""
    STOP = "stop"
    """End the job, with an exit code that tells the scheduler what to do next."""


TELLING = frozenset({Action.DUMP, Action.REPORT, Action.NOTIFY})
"""These do not touch the job; all others may."""


class Step(Struct, frozen=True, omit_defaults=True):
    """One act of a policy with its limit; `restart:3` is `Step(Action.RESTART, times=3)`."""

    action: Action
    seconds: float = 0.0
    """How long it may take; for `exclude`: after how long the node is allowed back, 0: never."""
    times: int = 0
    """How often at the most for the same cause and culprit without progress; 0: no own limit."""
    stop: str = ""
    """The word of a stop's exit code."""

    def __str__(self) -> str:
        limit = self.stop or (str(self.times) if self.times else "")
        if self.seconds:
            limit = f"{self.seconds:g}s"
        return f"{self.action}:{limit}" if limit else str(self.action)


class Told(Struct, frozen=True):
    """What identifies a verdict that was acted on already."""

    attempt: int
    cause: Cause
    culprits: tuple[int, ...]
    slow: bool = False
    """The job was slow, not stuck: a stall by the same rank for the same cause is news."""
    over: bool = False
    """It told of something that was past."""
    healed: bool = False
    """The job moved on afterwards: only what corrects it is still news."""

    @classmethod
    def of(cls, verdict: Verdict) -> "Told":
        """Return the identity of a verdict."""
        culprits = tuple(sorted(culprit.rank for culprit in verdict.culprits))
        slow, over = verdict.slowdown > 0, bool(verdict.until)
        return cls(verdict.attempt, verdict.cause, culprits, slow, over)
