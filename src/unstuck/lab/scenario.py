"""One scenario: a program, a fault, whom it strikes and when, and what must then be said."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from unstuck.lab.faults import AnyFault, Inside
from unstuck.lab.hosts import available
from unstuck.model.verdict import Cause

Kind = Literal["hang", "death", "network", "slow", "healthy"]
GOALS: dict[Kind, float] = {"hang": 5.0, "death": 1.0, "network": 3.0, "slow": 20.0}
"""Seconds from the onset to the verdict, unless a scenario has its own; none for healthy jobs."""
FAULT_RANK = 2
RANKS = 4


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run and what is right. In a scenario file the name is that of the table."""

    name: str
    kind: Kind
    program: Path
    causes: tuple[Cause, ...]
    """Any of them is right; none means: there must be no verdict at all."""
    why: str = ""
    """Where several causes are right, or nobody is to blame: why it cannot be told."""
    culprits: tuple[int, ...] = ()
    """The ranks to blame, exactly."""
    beside: tuple[int, ...] = ()
    """Ranks that may be blamed as well, where neither side can be shown to be wrong."""
    culprit_hosts: tuple[str, ...] = ()
    """Where whole hosts are to blame, their names, exactly; then `culprits` does not count."""
    goal: float = 0.0
    fault: AnyFault = Inside()
    step: int = 30
    """The step at which the fault comes."""
    hosts: int = 1
    ranks: int = RANKS
    """Of the whole job, spread evenly over the hosts; with three hosts, three."""
    env: dict[str, str] = {}
    torchrun: tuple[str, ...] = ()
    heal_after: float | None = None
    """Seconds after the first verdict at which the fault is taken back."""
    after: tuple[Cause, ...] = ()
    """What is right for the last verdict once the fault was taken back."""
    after_hosts: tuple[str, ...] = ()
    """The hosts that the last verdict must blame, where that is known only then."""
    limit: float = 0.0
    """How long to wait for a verdict: 30 s or twice the goal. For a healthy job's end: 180 s."""
    alone: bool = False
    """It measures who gets a core or how fast one is: no other job of the lab runs beside it."""
    about: str = ""

    @property
    def rank(self) -> int:
        """Give the rank that goes wrong, or that says when the fault is due."""
        struck = getattr(self.fault, "rank", None)
        if isinstance(struck, int):
            return struck
        return self.culprits[0] if self.culprits else min(FAULT_RANK, self.ranks - 1)

    @property
    def expected(self) -> str:
        """Say what is right, in words."""
        return " or ".join(self.causes) or "no verdict"

    def why_not(self) -> str:
        """Say why it cannot be run on this machine; empty when it can."""
        if self.hosts > 1 and (reason := available()):
            return reason
        return self.fault.why_not()
