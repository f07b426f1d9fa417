"""A memory limit that a rank runs into: the kernel's out-of-memory killer ends it."""

import time

from unstuck.errors import LabError
from unstuck.lab.cgroups import Cgroup, why_not
from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.world import Watched, World

_FILES_1 = ("memory.usage_in_bytes", "memory.limit_in_bytes")
_FILES_2 = ("memory.current", "memory.max")


class MemoryLimit(Fault, frozen=True, tag="memory-limit"):
    """Proven by the group's own count of kills. The fault begins with the rank's death.

    The whole job has one control group from its start, as in a container. The kernel kills
    the largest process in it, so the rank must be the one that grows.
    """

    rank: int = 2
    megabytes: int = 128
    """What the job may take from now on, beside what it has."""

    def why_not(self) -> str:
        """Ask for a memory controller."""
        return why_not("memory")

    def enclose(self) -> Cgroup:
        """Start the job in a group that has no limit yet."""
        return Cgroup("memory")

    def inject(self, world: World) -> Injection:
        """Set the limit; the rank's own growth does the rest."""
        group = world.group
        if group is None:
            raise LabError("the job has no control group of its own")
        first = group.version == 1
        usage, limit = _FILES_1 if first else _FILES_2
        events = "memory.oom_control" if first else "memory.events"
        watched = Watched(world.pid(self.rank))
        group.write(limit, str(int(group.read(usage)) + self.megabytes * 2**20))

        def look() -> Fired | None:
            kills = group.count(events, "oom_kill")
            if not (kills and watched.ended()):
                return None
            return Fired(time.time(), kills, f"the kernel killed rank {self.rank} for its memory")

        return Injection(look, watched.close)
