"""The control group of a process: kills by the out-of-memory killer, time lost to a cpu limit."""

import contextlib
import os
from functools import lru_cache
from pathlib import Path

from unstuck.observe.node import procfs

Groups = tuple[tuple[str, str], ...]
"""Controllers and path of each group that a process belongs to."""

_MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
_CPU_MOUNTS = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct")
_LOST = {"throttled_usec": 1e-6, "throttled_time": 1e-9}


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


def throttled(pid: int) -> dict[str, float] | None:
    """Seconds lost to a cpu limit so far, per file that counts them; None where none does.

    A limit may be set on any group above the process's own, so all of them are read.
    """
    found: dict[str, float] = {}
    for file in _limit_files(_groups_of(pid)):
        for line in procfs.read(file).splitlines():
            name, _, value = line.partition(" ")
            if name in _LOST and value.isdigit():
                found[file] = int(value) * _LOST[name]
    return found or None


def pressure_folder(pid: int) -> str | None:
    """Find the folder with the pressure files of the process's own group, below the root."""
    return _pressure_folder(_groups_of(pid))


@lru_cache(256)
def _pressure_folder(groups: Groups) -> str | None:
    for controllers, path in groups:
        if controllers == "" and path != "/":
            for mount in _MOUNTS:
                if os.path.exists(f"{mount}{path}/cpu.pressure"):
                    return mount + path
    return None


@lru_cache(256)
def _limit_files(groups: Groups) -> tuple[str, ...]:
    files: list[str] = []
    for controllers, path in groups:
        if "cpu" in controllers.split(","):
            mounts = _CPU_MOUNTS
        elif controllers == "":
            mounts = _MOUNTS
        else:
            continue
        mount = next((each for each in mounts if os.path.isdir(each + path)), None)
        # The root has no limit.
        while mount is not None and path.strip("/"):
            files.append(f"{mount}{path}/cpu.stat")
            path = path.rpartition("/")[0]  # noqa: PLW2901 - on to the group above
    return tuple(files)


def _groups_of(pid: int) -> Groups:
    """List (controllers, path) of a process; empty when it is gone."""
    lines = [line.split(":", 2) for line in procfs.read(f"/proc/{pid}/cgroup").splitlines()]
    return tuple((line[1], line[2]) for line in lines if len(line) == 3)


def _event_files(pid: int) -> list[Path]:
    files: list[Path] = []
    for controllers, path in _groups_of(pid):
        if controllers == "":
            files.append(Path("/sys/fs/cgroup" + path) / "memory.events")
        elif "memory" in controllers.split(","):
            files.append(Path("/sys/fs/cgroup/memory" + path) / "memory.oom_control")
    return files
