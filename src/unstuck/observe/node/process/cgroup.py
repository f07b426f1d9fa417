"""The control group of a process: out-of-memory kills, time lost to a cpu limit, the freezer."""

import os
from collections.abc import Iterator
from functools import lru_cache

from unstuck.observe.node.process import procfs

Groups = tuple[tuple[str, str], ...]
"""Controllers and path of each group that a process belongs to."""

_MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
_CONTROLLERS = "/sys/fs/cgroup"
"""Below it version 1 has one mount per controller."""
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
            for line in procfs.read(events).splitlines():
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
    for _, mounts, path in _mounts_of(groups, "cpu", "cpu,cpuacct"):
        mount = next((each for each in mounts if os.path.isdir(each + path)), None)
        above = path
        # The root has no limit.
        while mount is not None and above.strip("/"):
            files.append(f"{mount}{above}/cpu.stat")
            above = above.rpartition("/")[0]
    return tuple(files)


def frozen(pid: int) -> bool:
    """Tell whether a freezer holds the process: `docker pause`, a scheduler that suspends a job.

    /proc does not show it: a frozen process seems asleep, or in state D.

    Example:
        >>> frozen(os.getpid())
        False
    """
    for unified, mounts, path in _mounts_of(_groups_of(pid), "freezer"):
        name, line = ("cgroup.events", "frozen 1") if unified else ("freezer.state", "FROZEN")
        if any(line in procfs.read(f"{mount}{path}/{name}").splitlines() for mount in mounts):
            return True
    return False


def _mounts_of(groups: Groups, *names: str) -> Iterator[tuple[bool, tuple[str, ...], str]]:
    """Yield where the groups of a controller may be: is it version 2, mounts, path below them."""
    for controllers, path in groups:
        if controllers == "":
            yield True, _MOUNTS, path
        elif names[0] in controllers.split(","):
            yield False, tuple(f"{_CONTROLLERS}/{name}" for name in names), path


def _groups_of(pid: int) -> Groups:
    """List (controllers, path) of a process; empty when it is gone."""
    lines = [line.split(":", 2) for line in procfs.read(f"/proc/{pid}/cgroup").splitlines()]
    return tuple((line[1], line[2]) for line in lines if len(line) == 3)


def _event_files(pid: int) -> list[str]:
    return [
        f"{mounts[0]}{path}/{'memory.events' if unified else 'memory.oom_control'}"
        for unified, mounts, path in _mounts_of(_groups_of(pid), "memory")
    ]
