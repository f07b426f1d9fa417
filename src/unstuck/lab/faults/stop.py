"""SIGSTOP from outside, as a debugger, a scheduler or a stray Ctrl-Z sends it."""

import contextlib
import os
import signal
import time

from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.world import World
from unstuck.observe.node.process import procfs


class Stop(Fault, frozen=True, tag="stop"):
    """Proven by the process's state T."""

    rank: int = 2

    def inject(self, world: World) -> Injection:
        """Stop the rank."""
        pid = world.pid(self.rank)
        at = time.time()
        os.kill(pid, signal.SIGSTOP)

        def look() -> Fired | None:
            found = procfs.stat(pid)
            stopped = found is not None and found.state == "T"
            return Fired(at, 1, f"rank {self.rank} is in state T") if stopped else None

        def undo() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        return Injection(look, undo)
