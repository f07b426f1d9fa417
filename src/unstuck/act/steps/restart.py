"""Restart: end all ranks of the attempt at once, so that torchrun restarts them at once.

All of them, not the culprit alone: torchrun would send SIGTERM to the others and wait 30 s for
one that is stopped or hangs. The culprit's verdict goes into its torchelastic error file first, so
torchrun prints it as the root cause.
"""

from typing import Any

from unstuck.act.steps.step import Actuator, Incident, Reach, alive, living
from unstuck.model.order import Act
from unstuck.model.snapshot import Snapshot

GONE_WITHIN = 30.0
"""A process that SIGKILL does not end by then is stuck in the kernel."""
BACK_WITHIN = 600.0
"""Rendezvous and imports may take minutes on a slow file system; torchrun itself waits this long
for a rendezvous."""


class Restart(Actuator):
    """Ends the processes that were there when it began, and no others."""

    def __init__(self, incident: Incident) -> None:
        self.limit = GONE_WITHIN
        self._incident = incident
        self._targets = living(incident.snapshot)

    def facts(self) -> dict[str, Any]:
        """Say whom it ends."""
        return {"ends": [target.rank for target in self._targets]}

    def carry_out(self, reach: Reach, number: int) -> None:
        """End those that still live; where torchrun was faster there are none."""
        if self._targets:
            reach.order(self._incident.order(number, Act.END, self._targets))

    def finished(self, snapshot: Snapshot) -> bool:
        """Note who is gone; the plan ends when the new attempt has started."""
        self._targets = alive(self._targets, snapshot)
        if not self._targets:
            self.limit = BACK_WITHIN
        return False
