"""A scenario: a program, a fault, whom it hits and when, and the verdict that is expected."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from unstuck.lab.faults import AnyFault, Inside
from unstuck.lab.hosts import available
from unstuck.model.verdict import Cause

Kind = Literal["hang", "held", "works", "death", "network", "slow", "healthy"]
"""`hang`: with a proof. `held`: one rank holds the others up, and only time shows that it is stuck.
`works`: the same, but it goes on working, so it is named and never judged."""
GOALS: dict[Kind, float] = {"hang": 5.0, "held": 75.0, "death": 1.0, "network": 3.0, "slow": 20.0}
"""Seconds from onset to verdict, unless a scenario has its own goal; none for healthy jobs."""
NAMED = 5.0
"""Seconds from onset to the notice that names a rank which holds others up."""
FAULT_RANK = 2
RANKS = 4


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run and what to expect. In a scenario file, the name is that of the table."""

    name: str
    kind: Kind
    program: Path
    causes: tuple[Cause, ...]
    """Any of them is right; empty: there must be no verdict at all."""
    why: str = ""
    """Where several causes are right, or no rank is to blame: why this cannot be decided."""
    culprits: tuple[int, ...] = ()
    """The ranks to blame, exactly."""
    beside: tuple[int, ...] = ()
    """Ranks that may be blamed too, where neither side can be shown to be wrong."""
    culprit_hosts: tuple[str, ...] = ()
    """The hosts to blame, exactly, where whole hosts are; `culprits` is then ignored."""
    goal: float = 0.0
    named: float = NAMED
    """Seconds to the notice, for the kinds `held` and `works`."""
    fault: AnyFault = Inside()
    step: int = 30
    """The step at which the fault is injected."""
    hosts: int = 1
    ranks: int = RANKS
    """Number of ranks, spread evenly over the hosts; with three hosts, three."""
    env: dict[str, str] = {}
    torchrun: tuple[str, ...] = ()
    python: str = ""
    """The interpreter of the ranks, where they need an environment of their own."""
    heal_after: float | None = None
    """Seconds from the first verdict until the fault is undone."""
    after: tuple[Cause, ...] = ()
    """The causes that are right in the last verdict after the fault was undone."""
    after_hosts: tuple[str, ...] = ()
    """The hosts that the last verdict must blame, where this is only known then."""
    limit: float = 0.0
    """Seconds to wait for a verdict: 30 or twice the goal; for a healthy job to end: 180."""
    alone: bool = False
    """It depends on CPU time: no other job of the lab may run at the same time."""
    about: str = ""

    @property
    def rank(self) -> int:
        """The faulty rank, or the one whose steps decide when the fault is injected."""
        struck = getattr(self.fault, "rank", None)
        if isinstance(struck, int):
            return struck
        return self.culprits[0] if self.culprits else min(FAULT_RANK, self.ranks - 1)

    @property
    def expected(self) -> str:
        """The expected verdict, in words."""
        return " or ".join(self.causes) or ("a notice" if self.kind == "works" else "no verdict")

    def why_not(self) -> str:
        """Explain why it cannot run on this machine; empty when it can."""
        if self.hosts > 1 and (reason := available()):
            return reason
        return self.fault.why_not()
