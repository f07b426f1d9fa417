"""Processes of a job that cannot, or should not, outlive the request to end it."""

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

from unstuck.clock import SYSTEM, Clock
from unstuck.model.liveness import is_stopped
from unstuck.model.rank import Phase, RankState
from unstuck.observe.node.evidence import STALE
from unstuck.observe.node.process.procfs import lives
from unstuck.observe.node.ranks import RankWatcher

MARK = "UNSTUCK_RUN"
"""The variable by which every process of a job can be found, whatever its parent is now."""


OUT_OF_SIGHT = 10.0
"""Seconds for which a rank in a collective may be waiting for a rank of another node to save."""


class Unresponsive:
    """Finds ranks that cannot handle SIGTERM: stopped, or stuck where no handler runs.

    torchrun gives every rank 30 s after SIGTERM. A rank whose Python handler cannot run would
    only waste them; one that does run its handler has the time that torchrun gives it, and so has
    one that waits for such a rank in a collective: they may be about to save together.
    """

    def __init__(self, live: Path, clock: Clock = SYSTEM, *, several_nodes: bool = False) -> None:
        self._clock = clock
        self._several_nodes = several_nodes
        now = self._began = clock.monotonic()
        self._watchers: list[RankWatcher] = []
        for page in live.glob("rank-*.page"):
            with contextlib.suppress(OSError, ValueError):
                self._watchers.append(RankWatcher(page, "", now))
        self._before = {w.pid: w.look(now) for w in self._watchers}

    def end(self) -> None:
        """Kill them, judged by what they did since this object was made."""
        at = self._clock.monotonic()
        ranks = {w.pid: w.look(at) for w in self._watchers if lives(w.pid)}
        unseen = self._several_nodes and at - self._began < OUT_OF_SIGHT
        for pid in beyond_help(self._before, ranks, unseen=unseen):
            kill(pid)

    def close(self) -> None:
        """Let go of the pages."""
        for watcher in self._watchers:
            watcher.close(remove=False)


def beyond_help(
    before: Mapping[int, RankState], now: Mapping[int, RankState], *, unseen: bool
) -> set[int]:
    """Name the processes of ranks that cannot end by themselves, and that nobody else can help.

    Args:
        before: the ranks when they were asked to end.
        now: those that still live.
        unseen: there may be ranks elsewhere that still run.
    """
    stuck = {pid for pid, rank in now.items() if is_unresponsive(before[pid], rank)}
    somebody_runs = unseen or stuck != set(now)
    return {pid for pid in stuck if not (somebody_runs and only_waits(now[pid]))}


def is_unresponsive(before: RankState, now: RankState) -> bool:
    """Tell whether a rank cannot run a signal handler, from two looks at it."""
    if is_stopped(now.process):
        return True
    if now.unobserved:
        return False
    if now.beat_age > 2 * STALE and now.phase != "exit":
        # With the GIL held since the request and at work, it may be pickling what it saves.
        return before.beat_age > 2 * STALE or now.process.cpu < 0.1
    waits = now.in_flight or now.phase == Phase.INIT
    blocked = waits and now.stack == before.stack and now.process.cpu < 0.1
    return blocked and now.stalled_for > STALE


def only_waits(now: RankState) -> bool:
    """Tell whether a rank would go on if another one did: it waits in a collective."""
    return now.in_flight and now.beat_age <= 2 * STALE and not is_stopped(now.process)


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


def end_all(
    mark: str,
    but: set[int],
    grace: float = 2.0,
    clock: Clock = SYSTEM,
    *,
    interrupted: bool = False,
) -> int:
    """End what is left of a run: SIGTERM, then SIGKILL. Return how many there were.

    Those that were `interrupted` as by Ctrl-C may first end by themselves.
    """
    victims = of_run(mark, but)
    if interrupted and _are_gone_within(grace, mark, but, clock):
        return 0
    ask(victims)
    if not _are_gone_within(grace, mark, but, clock):
        for pid in of_run(mark, but):
            kill(pid)
    return len(victims)


def _are_gone_within(seconds: float, mark: str, but: set[int], clock: Clock) -> bool:
    deadline = clock.monotonic() + seconds
    while of_run(mark, but):
        if clock.monotonic() >= deadline:
            return False
        clock.sleep(0.05)
    return True


def ask(pids: Iterable[int]) -> None:
    """Send SIGTERM, which a process may answer in its own time."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def kill(pid: int) -> None:
    """Send SIGKILL, which ends a stopped process too."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
