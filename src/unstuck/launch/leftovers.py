"""Processes of a job that cannot, or should not, live on after its end was asked for."""

import contextlib
import os
import signal
import time
from pathlib import Path

from unstuck.model.rank import RankState
from unstuck.observe.node import procfs
from unstuck.observe.node.ranks import STALE, RankWatcher

MARK = "UNSTUCK_RUN"
"""The variable by which every process of a job can be found, whoever its parent is now."""


class Deaf:
    """Finds ranks that cannot hear SIGTERM: stopped, or stuck where no handler runs.

    torchrun gives every rank 30 s after SIGTERM. A rank whose Python handler cannot run
    would only waste them; one that does run its handler is left to torchrun's patience.
    """

    def __init__(self, live: Path) -> None:
        now = time.monotonic()
        self._watchers: list[RankWatcher] = []
        for page in live.glob("rank-*.page"):
            with contextlib.suppress(OSError, ValueError):
                self._watchers.append(RankWatcher(page, "", now))
        self._before = {w.pid: w.look(now) for w in self._watchers}

    def end(self) -> None:
        """Kill the deaf ones, judged by what they did since this object was made."""
        for watcher in self._watchers:
            now = watcher.look(time.monotonic())
            alive = procfs.stat(watcher.pid)
            if (
                alive is not None
                and alive.state not in "ZX"
                and _deaf(self._before[watcher.pid], now)
            ):
                kill(watcher.pid)

    def close(self) -> None:
        """Let go of the pages."""
        for watcher in self._watchers:
            watcher.close(remove=False)


def _deaf(before: RankState, now: RankState) -> bool:
    if now.process.state in ("T", "t", "F"):
        return True
    if now.unobserved:
        return False
    if now.beat_age > 2 * STALE and now.phase != "exit":
        return True
    blocked = now.in_flight and now.stack == before.stack and now.process.cpu < 0.1
    return blocked and now.stalled_for > STALE


def of_run(mark: str, but: set[int]) -> list[int]:
    """Return the live processes that carry the run's mark, except `but`."""
    found: list[int] = []
    needle = f"{MARK}={mark}\0".encode()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) not in but:
            with contextlib.suppress(OSError):
                if needle in Path(f"/proc/{entry.name}/environ").read_bytes():
                    found.append(int(entry.name))
    return [pid for pid in found if (s := procfs.stat(pid)) and s.state not in "ZX"]


def end_all(mark: str, but: set[int], grace: float = 2.0) -> int:
    """End what is left of a run: SIGTERM, then SIGKILL. Return how many there were."""
    victims = of_run(mark, but)
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while victims and time.monotonic() < deadline:
        time.sleep(0.05)
        if not of_run(mark, but):
            return len(victims)
    for pid in of_run(mark, but):
        kill(pid)
    return len(victims)


def kill(pid: int) -> None:
    """Send SIGKILL, which also a stopped process obeys."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
