"""What may be done about a verdict, and what was done before."""

from enum import StrEnum

from msgspec import Struct

from unstuck.model.verdict import Cause, Verdict


class Action(StrEnum):
    """The acts there are. `DUMP`: store the incident. `REPORT`: tell the people."""

    DUMP = "dump"
    REPORT = "report"


class Told(Struct, frozen=True):
    """What identifies a verdict that was acted on already."""

    attempt: int
    cause: Cause
    culprits: tuple[int, ...]

    @classmethod
    def of(cls, verdict: Verdict) -> "Told":
        """Return the identity of a verdict."""
        culprits = tuple(sorted(culprit.rank for culprit in verdict.culprits))
        return cls(verdict.attempt, verdict.cause, culprits)
