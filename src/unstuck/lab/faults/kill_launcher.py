"""Only the launcher of one host is killed; its ranks live on without it."""

import os
import signal
import time

from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.world import Watched, World


class KillLauncher(Fault, frozen=True, tag="kill-launcher"):
    """Proven by the end of torchrun's process."""

    host: int = 0

    def inject(self, world: World) -> Injection:
        """Kill torchrun."""
        watched = Watched(world.launcher(self.host))
        at = time.time()
        os.kill(watched.pid, signal.SIGKILL)

        def look() -> Fired | None:
            return Fired(at, 1, "torchrun has ended after SIGKILL") if watched.ended() else None

        return Injection(look, watched.close)
