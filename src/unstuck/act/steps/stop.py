"""Stop: end the launch command of every node with an exit code that says what to do next."""

from pathlib import Path
from typing import Any

from unstuck.act.plan import exit_of
from unstuck.act.steps.exclude import remember
from unstuck.act.steps.step import Actuator, Incident, Reach, alive, living
from unstuck.clock import Clock
from unstuck.model.action import Step
from unstuck.model.exits import Exit
from unstuck.model.order import Act
from unstuck.model.snapshot import Snapshot

AWAY = 3600.0
"""How long the scheduler should leave out a node that the job was stopped for."""
ENDS_WITHIN = 5.0
"""How long a launcher whose ranks have ended may take to end by itself."""


class Stop(Actuator):
    """The last step of every plan; `unstuck run` itself sees to it that it ends."""

    def __init__(
        self,
        incident: Incident,
        step: Step,
        restarts_left: int | None,
        run: Path,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._incident = incident
        self._run = run
        self._code = exit_of(step)
        # A launcher that restarts nothing may see its ranks die: it then ends by itself and
        # prints the verdict as the root cause.
        final = restarts_left == 0
        self._targets = living(incident.snapshot) if final else ()

    def facts(self) -> dict[str, Any]:
        """Say with which code."""
        return {"exit_code": self._code.value}

    def carry_out(self, reach: Reach, number: int) -> None:
        """Order all nodes to stop."""
        if self._code is Exit.WITHOUT_NODE:
            now = self._clock.time()
            remember(self._run, self._incident, now, now + AWAY)
        grace = ENDS_WITHIN if self._targets else 0.0
        stop = self._incident.order(number, Act.STOP, code=self._code.value, seconds=grace)
        reach.order(stop)
        if self._targets:
            reach.order(self._incident.order(number + 1, Act.END, self._targets))

    def finished(self, snapshot: Snapshot) -> bool:
        """Note who is gone; nothing follows this step."""
        self._targets = alive(self._targets, snapshot)
        return False
