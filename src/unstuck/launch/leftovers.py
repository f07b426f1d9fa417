"""Processes of a job that cannot, or should not, outlive the request to end it."""

import contextlib
import os
import signal
from pathlib import Path

from unstuck.clock import SYSTEM, Clock
from unstuck.model.liveness import is_stopped
from unstuck.model.rank import RankState
from unstuck.observe.node.evidence import STALE
from unstuck.observe.node.process import procfs
from unstuck.observe.node.ranks import RankWatcher

MARK = "UNSTUCK_RUN"
"""The variable by which every process of a job can be found, whatever its parent is now."""


class Unresponsive:
    """Finds ranks that cannot handle SIGTERM: stopped, or stuck where no handler runs.

    torchrun gives every rank 30 s after SIGTERM. A rank whose Python handler cannot run would
    only waste them; one that does run its handler has the time that torchrun gives it.
    """

    def __init__(self, live: Path, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        now = clock.monotonic()
        self._watchers: list[RankWatcher] = []
        for page in live.glob("rank-*.page"):
            with contextlib.suppress(OSError, ValueError):
                self._watchers.append(RankWatcher(page, "", now))
        self._before = {w.pid: w.look(now) for w in self._watchers}

    def end(self) -> None:
        """Kill them, judged by what they did since this object was made."""
        for watcher in self._watchers:
            now = watcher.look(self._clock.monotonic())
            if lives(watcher.pid) and is_unresponsive(self._before[watcher.pid], now):
                kill(watcher.pid)

    def close(self) -> None:
        """Let go of the pages."""
        for watcher in self._watchers:
            watcher.close(remove=False)


def is_unresponsive(before: RankState, now: RankState) -> bool:
    """Tell whether a rank cannot run a signal handler, from two looks at it."""
    if is_stopped(now.process):
        return True
    if now.unobserved:
        return False
    if now.beat_age > 2 * STALE and now.phase != "exit":
        return True
    blocked = now.in_flight and now.stack == before.stack and now.process.cpu < 0.1
    return blocked and now.stalled_for > STALE


def lives(pid: int) -> bool:
    """Tell whether a process runs, and not only waits to be reaped."""
    found = procfs.stat(pid)
    return found is not None and found.state not in "ZX"


def of_run(mark: str, but: set[int]) -> list[int]:
    """Return the live processes that carry the run's mark, except `but`."""
    found: list[int] = []
    needle = f"{MARK}={mark}\0".encode()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) not in but:
            with contextlib.suppress(OSError):
                if needle in Path(f"/proc/{entry.name}/environ").read_bytes():
                    found.append(int(entry.name))
    return [pid for pid in found if lives(pid)]


def end_all(mark: str, but: set[int], grace: float = 2.0, clock: Clock = SYSTEM) -> int:
    """End what is left of a run: SIGTERM, then SIGKILL. Return how many there were."""
    victims = of_run(mark, but)
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = clock.monotonic() + grace
    while victims and clock.monotonic() < deadline:
        clock.sleep(0.05)
        if not of_run(mark, but):
            return len(victims)
    for pid in of_run(mark, but):
        kill(pid)
    return len(victims)


def kill(pid: int) -> None:
    """Send SIGKILL, which ends a stopped process too."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
