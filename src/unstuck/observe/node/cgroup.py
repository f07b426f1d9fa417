"""The control group of a process: has the kernel's out-of-memory killer been at work?"""

import contextlib
from pathlib import Path


class OomCounter:
    """Counts the kills in a process's cgroup from now on; outlives the process itself.

    Example:
        >>> import os
        >>> OomCounter(os.getpid()).kills()
        0
    """

    def __init__(self, pid: int) -> None:
        self._files = _event_files(pid)
        self._before = self._total()

    def kills(self) -> int:
        """Return the kills since this object was made; 0 where they cannot be known."""
        return max(0, self._total() - self._before)

    def _total(self) -> int:
        for events in self._files:
            with contextlib.suppress(OSError, ValueError):
                for line in events.read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        return int(value)
        return 0


def _event_files(pid: int) -> list[Path]:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return []
    files: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            files.append(Path("/sys/fs/cgroup" + path) / "memory.events")
        elif "memory" in controllers.split(","):
            files.append(Path("/sys/fs/cgroup/memory" + path) / "memory.oom_control")
    return files
