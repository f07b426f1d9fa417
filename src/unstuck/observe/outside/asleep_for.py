"""For how long a thread has not run: the kernel notes when each one last had a core.

`/proc/PID/sched` has that moment by a clock of its own, which each core counts for itself and from
which time spent on interrupts is left out. So it is compared with what the same core says now, as
seen by a thread of ours that runs there for a moment.
"""

import contextlib
import os
import re

from unstuck.observe.node.process import procfs

_LAST_RAN = re.compile(r"^se\.exec_start\s*:\s*([\d.]+)", re.MULTILINE)
_LEAST = 0.01


def asleep_for(pid: int) -> float | None:
    """Return the seconds since the main thread of a process last ran; None if it is not told.

    Example:
        asleep_for(4711)  # 1834.2: it has waited for half an hour
    """
    stat = procfs.stat(pid)
    then = _last_ran(pid)
    if stat is None or then is None:
        return None
    now = _clock_of(stat.core)
    if now is None or _last_ran(pid) != then:
        return None if now is None else 0.0
    slept = (now - then) / 1000
    return round(slept, 3) if slept > _LEAST else 0.0


def _last_ran(pid: int) -> float | None:
    """Return the moment in milliseconds."""
    found = _LAST_RAN.search(procfs.read(f"/proc/{pid}/task/{pid}/sched"))
    return float(found[1]) if found else None


def _clock_of(core: int) -> float | None:
    """Read the clock of one core; None where this process may not run on it."""
    with contextlib.suppress(OSError):
        allowed = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {core})
            found = _LAST_RAN.search(procfs.read("/proc/thread-self/sched"))
            return float(found[1]) if found else None
        finally:
            os.sched_setaffinity(0, allowed)
    return None
