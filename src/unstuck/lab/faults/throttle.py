"""A cpu limit on one rank's control group, as a container with too small a quota has."""

import time

from unstuck.lab.cgroups import Cgroup, why_not
from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.world import World

_PERIOD = 100_000


class Throttle(Fault, frozen=True, tag="throttle"):
    """Proven by the group's count of periods in which it was held back."""

    rank: int = 2
    share: float = 0.1
    """Of one core."""

    def why_not(self) -> str:
        """Ask for a cpu controller."""
        return why_not("cpu")

    def inject(self, world: World) -> Injection:
        """Put the rank into a group with a quota."""
        group = Cgroup("cpu")
        quota = int(self.share * _PERIOD)
        try:
            if group.version == 1:
                group.write("cpu.cfs_period_us", str(_PERIOD))
                group.write("cpu.cfs_quota_us", str(quota))
            else:
                group.write("cpu.max", f"{quota} {_PERIOD}")
            group.add(world.pid(self.rank))
        except BaseException:
            group.close()
            raise
        at = time.time()

        def look() -> Fired | None:
            times = group.count("cpu.stat", "nr_throttled")
            held = f"rank {self.rank} was held back in {times} periods of 0.1 s"
            return Fired(at, times, held) if times >= 3 else None

        return Injection(look, group.close)
