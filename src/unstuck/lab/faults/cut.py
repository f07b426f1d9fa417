"""The link of one host goes down: a pulled cable, a dead switch port."""

import time

from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.world import World


class Cut(Fault, frozen=True, tag="cut"):
    """Proven by the state of the port on the bridge."""

    host: int = 1

    def inject(self, world: World) -> Injection:
        """Take the link down; `undo` takes it up again."""
        hosts = world.need_hosts()
        at = time.time()
        hosts.cut(self.host)

        def look() -> Fired | None:
            down = Fired(at, 1, f"the link of node{self.host} is down")
            return None if hosts.is_up(self.host) else down

        return Injection(look, lambda: hosts.heal(self.host))
