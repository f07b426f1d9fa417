"""A signal that ends one rank, sent by somebody outside the job."""

import os
import signal
import time
from typing import Literal

from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.world import Watched, World


class Kill(Fault, frozen=True, tag="kill"):
    """Proven by the end of the process."""

    rank: int = 2
    signal: Literal["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT"] = "SIGKILL"

    def inject(self, world: World) -> Injection:
        """Send the signal to the rank."""
        watched = Watched(world.pid(self.rank))
        at = time.time()
        os.kill(watched.pid, signal.Signals[self.signal])

        def look() -> Fired | None:
            if not watched.ended():
                return None
            return Fired(at, 1, f"rank {self.rank} ended after {self.signal}")

        return Injection(look, watched.close)
