"""Checkpoint and raise: reach into the ranks that are well, also while they sit in a collective.

Their groups' sockets are shut first: nothing else frees a rank from a hung gloo operation.
"""

from typing import Any

from unstuck.act.steps.step import Actuator, Incident, Reach, alive, living
from unstuck.model.action import Step
from unstuck.model.order import Act
from unstuck.model.snapshot import Snapshot

_HAS_HOOK = ("ready", "running")


class Checkpoint(Actuator):
    """Calls the `@unstuck.on_stall` hooks; takes no time where nobody has one."""

    def __init__(self, incident: Incident, step: Step) -> None:
        self._incident = incident
        culprits = frozenset(culprit.rank for culprit in incident.verdict.culprits)
        states = {state.rank: state for state in incident.snapshot.ranks}
        here = living(incident.snapshot, but=culprits)
        self._targets = tuple(one for one in here if states[one.rank].hook in _HAS_HOOK)
        asked = (states[one.rank].hook_seconds or step.seconds for one in self._targets)
        self.limit = max(asked, default=step.seconds)

    def facts(self) -> dict[str, Any]:
        """Say in which ranks."""
        return {"reaches": [target.rank for target in self._targets], "seconds": self.limit}

    @property
    def pointless(self) -> bool:
        """Where no rank has a hook there is nothing to do."""
        return not self._targets

    def carry_out(self, reach: Reach, number: int) -> None:
        """Ask for it; ranks that heard it once do it once."""
        if self._targets:
            order = self._incident.order(number, Act.HOOK, self._targets, seconds=self.limit)
            reach.order(order)

    def finished(self, snapshot: Snapshot) -> bool:
        """Tell whether every hook has returned or failed, or its rank is gone."""
        states = {state.rank: state for state in snapshot.ranks}
        left = alive(self._targets, snapshot)
        return all(states[target.rank].hook not in _HAS_HOOK for target in left)


class Raise(Actuator):
    """Raises `StallError` in the ranks that are not to blame."""

    def __init__(self, incident: Incident, step: Step) -> None:
        self.limit = step.seconds
        self._incident = incident
        culprits = frozenset(culprit.rank for culprit in incident.verdict.culprits)
        self._targets = living(incident.snapshot, but=culprits)

    def facts(self) -> dict[str, Any]:
        """Say in which ranks."""
        return {"reaches": [target.rank for target in self._targets]}

    def carry_out(self, reach: Reach, number: int) -> None:
        """Raise; ranks that heard it once do it once."""
        order = self._incident.order(number, Act.RAISE, self._targets, seconds=self.limit)
        reach.order(order)

    def finished(self, snapshot: Snapshot) -> bool:
        """Give them their time: what they make of it is theirs."""
        return not alive(self._targets, snapshot)
