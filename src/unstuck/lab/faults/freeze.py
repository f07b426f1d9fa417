"""The freezer of a control group: `docker pause`, a snapshot, a scheduler that suspends."""

import time

from unstuck.lab.cgroups import Cgroup, why_not
from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.world import World


class Freeze(Fault, frozen=True, tag="freeze"):
    """Proven by the control group's own word that it is frozen."""

    rank: int = 2

    def why_not(self) -> str:
        """Ask for a freezer."""
        return why_not("freezer")

    def inject(self, world: World) -> Injection:
        """Put the rank into a group of its own and freeze that."""
        group = Cgroup("freezer")
        try:
            group.add(world.pid(self.rank))
            at = time.time()
            if group.version == 1:
                group.write("freezer.state", "FROZEN")
            else:
                group.write("cgroup.freeze", "1")
        except BaseException:
            group.close()
            raise

        def look() -> Fired | None:
            frozen = Fired(at, 1, f"the group of rank {self.rank} is frozen")
            return frozen if _frozen(group) else None

        return Injection(look, group.close)


def _frozen(group: Cgroup) -> bool:
    if group.version == 1:
        return group.read("freezer.state").strip() == "FROZEN"
    return group.count("cgroup.events", "frozen") == 1
