"""A host goes down at once, with all that runs on it: power, kernel panic, reclaimed machine."""

import contextlib
import os
import signal
import time

from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.world import World


class PowerOff(Fault, frozen=True, tag="power-off"):
    """Proven by the host's empty list of processes and its dead link."""

    host: int = 1

    def inject(self, world: World) -> Injection:
        """Take the link down first, so that no process can say goodbye, then kill them all."""
        hosts = world.need_hosts()
        at = time.time()
        hosts.cut(self.host)
        killed = hosts.pids(self.host)
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        def look() -> Fired | None:
            if hosts.is_up(self.host) or hosts.pids(self.host):
                return None
            return Fired(at, len(killed), f"{len(killed)} processes of node{self.host} are gone")

        return Injection(look)
