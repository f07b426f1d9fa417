"""Other processes that keep the disk busy which the job writes to."""

import contextlib
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

_WRITE = """
import mmap, os, sys
megabytes = int(sys.argv[2])
block = mmap.mmap(-1, min(megabytes, 16) << 20)  # aligned, as O_DIRECT wants it
block.write(os.urandom(len(block)))
try:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
except OSError:  # a file system that has none of it, as tmpfs
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
while True:
    os.lseek(file, 0, os.SEEK_SET)
    for _ in range((megabytes << 20) // len(block)):
        os.write(file, block)
"""
# Past the page cache: the hogs shall take the disk and not, by copying, the cores as well.


class DiskHog(Fault, frozen=True, tag="disk-hog"):
    """Proven by what the kernel says the hogs have written (`/proc/PID/io`)."""

    processes: int = 8
    megabytes: int = 64
    """The size of each hog's file, written again and again."""

    def inject(self, world: World) -> Injection:
        """Write beside the job's own files."""
        env = {**os.environ, MARKER: f"{owner.tag()}-hog"}
        files = [world.folder / f"hog{i}" for i in range(self.processes)]
        argv = [sys.executable, "-c", _WRITE]
        size = str(self.megabytes)
        hogs = [subprocess.Popen([*argv, str(file), size], env=env) for file in files]
        at = time.time()

        def look() -> Fired | None:
            written = sum(_written(hog.pid) for hog in hogs) >> 20
            return Fired(at, written, f"{written} MB written beside the job") if written else None

        def undo() -> None:
            end(hogs)
            for file in files:
                file.unlink(missing_ok=True)

        return Injection(look, undo)


def _written(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            if line.startswith("write_bytes:"):
                return int(line.split()[1])
    return 0
