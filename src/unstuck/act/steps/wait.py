"""Wait whether it passes by itself."""

from typing import Any

from unstuck.act.steps.step import Actuator
from unstuck.model.action import Step


class Wait(Actuator):
    """Does nothing for a while; a job that moves again ends the whole plan."""

    def __init__(self, step: Step) -> None:
        self.limit = step.seconds

    def facts(self) -> dict[str, Any]:
        """Say for how long."""
        return {"seconds": self.limit}
