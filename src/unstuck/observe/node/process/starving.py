"""Does a rank get the processor when it wants it?"""

from unstuck.observe.node.process import cgroup, procfs
from unstuck.observe.node.process.rate import Rate

_EVERY = 0.9


class Starving:
    """Follows how long a rank's main thread waits for a core, and its cgroup for its limit."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looked = 0.0
        self._delay = Rate()
        self._limits: dict[str, Rate] = {}
        self.delayed: float | None = None
        """Share of the last seconds; None where the kernel does not tell."""
        self.throttled: float | None = None
        self.cores: tuple[int, ...] = ()

    def look(self, now: float) -> None:
        """Read the counters again, at most once a second."""
        if now - self._looked < _EVERY:
            return
        self._looked = now
        self.cores = procfs.cores(self._pid)
        delay = procfs.thread_delay(self._pid)
        self.delayed = None if delay is None else self._delay.share(now, delay)
        limits = cgroup.throttled(self._pid)
        if limits is None:
            self.throttled = None
            self._limits = {}
            return
        rates = {file: self._limits.get(file) or Rate() for file in limits}
        self._limits = rates
        self.throttled = max(rates[file].share(now, total) for file, total in limits.items())
