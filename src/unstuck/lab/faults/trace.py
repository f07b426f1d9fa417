"""A debugger that holds one rank, as `gdb -p` left alone at its prompt does."""

import os
import subprocess
import sys
import time
from pathlib import Path

from unstuck.lab import owner
from unstuck.lab.faults.cpu_hog import end
from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.owner import MARKER
from unstuck.lab.world import World
from unstuck.observe.node.process import procfs

_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_ATTACH = """
import ctypes, sys, time
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207  # without the SIGSTOP that PTRACE_ATTACH leaves
for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
    ctypes.CDLL(None).ptrace(request, int(sys.argv[1]), None, None)
time.sleep(3600)
"""


class Trace(Fault, frozen=True, tag="trace"):
    """Proven by the process's state t."""

    rank: int = 2

    def why_not(self) -> str:
        """Ask for the right to trace."""
        if os.geteuid() != 0 and _YAMA.exists() and _YAMA.read_text().strip() != "0":
            return f"tracing another process needs root here ({_YAMA})"
        return ""

    def inject(self, world: World) -> Injection:
        """Attach to the rank's main thread and leave it there."""
        pid = world.pid(self.rank)
        env = {**os.environ, MARKER: f"{owner.tag()}-debugger"}
        at = time.time()
        debugger = subprocess.Popen([sys.executable, "-c", _ATTACH, str(pid)], env=env)

        def look() -> Fired | None:
            found = procfs.stat(pid)
            held = found is not None and found.state == "t"
            return Fired(at, 1, f"rank {self.rank} is in state t") if held else None

        return Injection(look, lambda: end([debugger]))
