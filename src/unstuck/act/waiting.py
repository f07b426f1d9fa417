"""Wait: see whether it passes by itself."""

from typing import Any

from unstuck.act.actuator import Actuator
from unstuck.model.action import Step


class Waiting(Actuator):
    """Does nothing for a while; a job that moves again ends the whole plan."""

    def __init__(self, step: Step) -> None:
        self.limit = step.seconds

    def facts(self) -> dict[str, Any]:
        """Say for how long."""
        return {"seconds": self.limit}
