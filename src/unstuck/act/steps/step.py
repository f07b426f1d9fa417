"""What all actuators have in common: one file each, one act each."""

from typing import Any, NamedTuple, Protocol

from unstuck.act.policy import Policy
from unstuck.explain.report import machine
from unstuck.model.order import Act, Order, Target
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict


class Reach(Protocol):
    """The way to the agents of all nodes."""

    def order(self, order: Order) -> None:
        """Send an order to all agents; those that are not addressed ignore it."""
        ...


class Incident(NamedTuple):
    """The verdict that is acted on, and the job as it was then."""

    verdict: Verdict
    snapshot: Snapshot
    policy: Policy

    def order(self, number: int, act: Act, targets: tuple[Target, ...] = (), **more: Any) -> Order:
        """Return an order about this incident."""
        verdict = self.verdict
        return Order(
            number,
            act,
            targets,
            culprits=tuple(culprit.rank for culprit in verdict.culprits),
            verdict=machine.line(verdict).strip(),
            summary=verdict.summary,
            **more,
        )


class Actuator:
    """One act on one incident: written down, then carried out, then followed."""

    limit: float = float("inf")
    """After this many seconds the next, harder step begins."""

    @property
    def pointless(self) -> bool:
        """True when there is nothing to do: the next step follows at once."""
        return False

    def facts(self) -> dict[str, Any]:
        """Return what the ledger should know beforehand."""
        return {}

    def carry_out(self, reach: Reach, number: int) -> None:
        """Do it; called again every second until it has taken effect."""

    def finished(self, snapshot: Snapshot) -> bool:  # noqa: ARG002
        """Tell whether there is nothing left to wait for; here: never."""
        return False


def living(snapshot: Snapshot, *, but: frozenset[int] = frozenset()) -> tuple[Target, ...]:
    """Return the processes of all ranks that are not known to have ended."""
    return tuple(
        Target(state.rank, state.process.pid)
        for state in snapshot.ranks
        if state.process.gone_for is None and state.process.pid and state.rank not in but
    )


def alive(targets: tuple[Target, ...], snapshot: Snapshot) -> tuple[Target, ...]:
    """Return the processes that are still alive."""
    now = {*living(snapshot)}
    return tuple(target for target in targets if target in now)
