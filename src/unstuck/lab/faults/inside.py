"""The program itself goes wrong, at the line that follows its `onset.mark()`."""

from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.world import World


class Inside(Fault, frozen=True, tag="inside"):
    """Proven by the time that the program writes down right before it goes wrong."""

    def inject(self, world: World) -> Injection:
        """Wait for the program's own mark."""

        def look() -> Fired | None:
            at = next((at for job in world.jobs if (at := job.onset()) is not None), None)
            return None if at is None else Fired(at, 1, "the program wrote its onset down")

        return Injection(look)
