"""Other processes that take the core a rank computes on, or all cores of the machine."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from unstuck.lab import owner
from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.owner import MARKER
from unstuck.lab.world import World

_SPIN = "import os, sys\nos.sched_setaffinity(0, eval(sys.argv[1]))\nwhile True: pass"


class CpuHog(Fault, frozen=True, tag="cpu-hog"):
    """Proven by the time that ranks were ready to run and had no core (`/proc/PID/schedstat`).

    The rank is pinned to one core together with the hogs, the other ranks to the remaining
    cores. With `rank = "all"` nobody is pinned and the hogs run everywhere.
    """

    rank: int | Literal["all"] = 2
    processes: int = 4

    def why_not(self) -> str:
        """Ask for a second core, where only one rank is to suffer."""
        if self.rank != "all" and len(os.sched_getaffinity(0)) < 2:
            return "only one core: the hogs would slow every rank"
        return ""

    def inject(self, world: World) -> Injection:
        """Pin the ranks and start the hogs."""
        ranks = world.ranks()
        apart = None if self.rank == "all" else self.rank
        struck = list(ranks.values()) if apart is None else [world.pid(apart)]
        cores = os.sched_getaffinity(0) if apart is None else _pin(ranks, apart)
        before = _waited(struck)
        env = {**os.environ, MARKER: f"{owner.tag()}-hog"}
        argv = [sys.executable, "-c", _SPIN, repr(cores)]
        # Linux shares a core out between sessions first (autogroup): together they get one share.
        own = apart is not None
        hogs = [
            subprocess.Popen(argv, env=env, start_new_session=own) for _ in range(self.processes)
        ]
        at = time.time()

        def look() -> Fired | None:
            waited = _waited(struck) - before
            held = f"{self.where()} waited {waited:.1f} s for a core"
            return Fired(at, round(waited * 1000), held) if waited > 0.3 else None

        return Injection(look, lambda: end(hogs))


def end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Kill and reap what a fault has started; may be called twice."""
    for process in processes:
        process.kill()
        process.wait()


def _pin(ranks: dict[int, int], apart: int) -> set[int]:
    """Pin one rank to a core of its own and the others to the rest; return its core."""
    cores = sorted(os.sched_getaffinity(0))
    for rank, pid in ranks.items():
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cores[-1:] if rank == apart else cores[:-1])
    return set(cores[-1:])


def _waited(pids: Iterable[int]) -> float:
    """Sum the seconds that all threads of the processes have waited for a core."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[1])
    return total / 1e9
