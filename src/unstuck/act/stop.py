"""Stop: end the launch command of every node with an exit code that says what to do next."""

import time
from pathlib import Path
from typing import Any

from unstuck.act.actuator import Actuator, Incident, Reach, alive, living
from unstuck.act.exclude import remember
from unstuck.act.plan import exit_of
from unstuck.model.action import Step
from unstuck.model.exits import Exit
from unstuck.model.order import Act
from unstuck.model.snapshot import Snapshot

AWAY = 3600.0
"""So long the scheduler should leave a node out that the job was stopped for."""
ENDS_WITHIN = 5.0
"""So long a launcher whose ranks have ended may take to end by itself."""


class Stop(Actuator):
    """The last step of every plan; `unstuck run` itself sees to it that it ends."""

    def __init__(
        self, incident: Incident, step: Step, restarts_left: int | None, run: Path
    ) -> None:
        self._incident = incident
        self._run = run
        self._code = exit_of(step)
        # A launcher that starts nothing again may see its ranks die: it then ends by itself and
        # prints the verdict as the root cause.
        final = restarts_left == 0
        self._targets = living(incident.snapshot) if final else ()

    def facts(self) -> dict[str, Any]:
        """Say with which code."""
        return {"exit_code": self._code.value}

    def carry_out(self, reach: Reach, number: int) -> None:
        """Tell all nodes."""
        if self._code is Exit.WITHOUT_NODE:
            remember(self._run, self._incident, time.time() + AWAY)
        grace = ENDS_WITHIN if self._targets else 0.0
        stop = self._incident.order(number, Act.STOP, code=self._code.value, seconds=grace)
        reach.order(stop)
        if self._targets:
            reach.order(self._incident.order(number + 1, Act.END, self._targets))

    def finished(self, snapshot: Snapshot) -> bool:
        """Take note of who is gone; nothing comes after this step."""
        self._targets = alive(self._targets, snapshot)
        return False
