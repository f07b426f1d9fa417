"""The ranks of this node: found, watched, and examined on request."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from unstuck.clock import Clock
from unstuck.collect.agent.helpers import helpers
from unstuck.console import say
from unstuck.model.host import Pressure
from unstuck.model.rank import Process, RankState
from unstuck.model.requests import EvidenceKind, EvidenceRequest
from unstuck.observe.node import overdue, starting
from unstuck.observe.node.process import procfs
from unstuck.observe.node.process.pressure import PressureMeter
from unstuck.observe.node.ranks import RankWatcher

_EAGER_FOR = 3.0
"""After a rank started, failed or left, its effect on the others is reported without delay too."""
_STALLED = 1.0
NO_PROGRESS = 5.0
"""A rank without progress for this long, and three times its usual, no longer trains."""
_READ_RECORDERS_AFTER = (0.0, 0.03, 0.05)
"""Pauses before the recorders of the others are read when a rank has died: its launcher ends
them within a tenth of a second, and the last of them may only now reach the operation."""


class LocalRanks:
    """Watches the ranks of one node; sets `changed` when the hub should know at once."""

    def __init__(self, live: Path, host: str, clock: Clock, changed: asyncio.Event) -> None:
        self._live = live
        self._host = host
        self._clock = clock
        self._changed = changed
        self._watchers: dict[str, RankWatcher] = {}
        self._helpers: frozenset[int] = frozenset()
        self._pressure = PressureMeter()
        self._phases: dict[int, str] = {}
        self._eager_until = 0.0
        self._reads_recorders = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.paused_until = 0.0
        """Unix time until which no late section of a rank is acted on."""

    @property
    def watchers(self) -> list[RankWatcher]:
        """All ranks that were found, dead ones included, without their helpers."""
        return [one for one in self._watchers.values() if one.pid not in self._helpers]

    @property
    def any_alive(self) -> bool:
        """Tell whether some rank of this node lives."""
        return any(watcher.alive for watcher in self.watchers)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the watching."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self, *, remove: bool) -> None:
        """Let go of the pages; `remove` deletes them."""
        for watcher in self._watchers.values():
            watcher.close(remove=remove)

    # --- watching

    def look(self) -> None:
        """Glance at every rank; send a frame at once when one started, failed or left."""
        now = self._clock.monotonic()
        self._admit(now)
        self._helpers = helpers(self._watchers.values())
        phases = {one.pid: one.phase(now) + one.halted(now) for one in self.watchers}
        if phases != self._phases:
            self._eager_until = now + _EAGER_FOR
            self._changed.set()
        self._phases = phases
        if self._clock.time() < self.paused_until:
            return  # whoever examines a rank now may have stopped it
        for watcher in self.watchers:
            if late := watcher.missed_deadlines(now):
                self.begin(self._act_on(watcher, late))

    def _admit(self, now: float) -> None:
        for page in self._live.glob("rank-*.page"):
            if page.name in self._watchers:
                continue
            try:
                watcher = RankWatcher(page, self._host, now)
            except (OSError, ValueError):
                continue
            self._drop_previous_attempts(watcher)
            self._watchers[page.name] = watcher
            if watcher.pidfd is not None:
                asyncio.get_running_loop().add_reader(watcher.pidfd, self._died, watcher)

    def _drop_previous_attempts(self, fresh: RankWatcher) -> None:
        """A rank that was restarted replaces the dead ones of its node."""
        if not any(old.rank == fresh.rank for old in self.watchers):
            return
        if fresh.pid in helpers([*self._watchers.values(), fresh]):
            return
        for name, old in list(self._watchers.items()):
            if not old.alive:
                old.close(remove=True)
                del self._watchers[name]

    def _died(self, watcher: RankWatcher) -> None:
        if watcher.pidfd is not None:
            asyncio.get_running_loop().remove_reader(watcher.pidfd)
        now = self._clock.monotonic()
        if procfs.exit_code(watcher.pid) != 0 and not self._reads_recorders:
            self._reads_recorders = True
            # Before anything else: its launcher may end the others within milliseconds.
            for other in self.watchers:
                if other.alive and other is not watcher:
                    other.ask_last_operations()
            self.begin(self._read_recorders())
        watcher.note_death(now)
        self.look()
        self._changed.set()

    def note_exit(self, pid: int, code: int) -> bool:
        """Note how a process ended; return whether it was a rank."""
        ranks = [watcher for watcher in self.watchers if watcher.pid == pid]
        for watcher in ranks:
            watcher.note_death(self._clock.monotonic(), code)
        return bool(ranks)

    # --- reporting

    def is_eager(self, now: float) -> bool:
        """Tell whether frames should be sent more often: something seems wrong, or just changed."""
        stalled = any(one.stalled_for(now) > _STALLED for one in self.watchers)
        return stalled or now < self._eager_until

    def report(self, now: float) -> tuple[tuple[RankState, ...], Pressure]:
        """Return the state of all ranks, and what their host lacks."""
        self._helpers = helpers(self._watchers.values())
        unprobed = self._unprobed()
        failed = {state.process.pid for state in unprobed}
        seen = [one.look(now) for one in self.watchers if one.pid not in failed]
        known = {s.rank for s in (*seen, *unprobed) if s.process.gone_for is None}
        pages = {one.pid for one in self._watchers.values()}
        ranks = (*seen, *unprobed, *starting.look(self._live, self._host, known, pages))
        return ranks, self._pressure.look(now, [state.process for state in seen])

    def make_no_progress(self) -> bool:
        """Tell whether no living rank of this node trains any more."""
        now = self._clock.monotonic()
        states = [watcher.look(now) for watcher in self.watchers if watcher.alive]
        return all(one.stalled_for >= max(NO_PROGRESS, 3 * one.pace.longest) for one in states)

    def _unprobed(self) -> list[RankState]:
        """Return ranks whose probe failed to start, as unobserved with the reason."""
        found: dict[int, RankState] = {}
        for problem in sorted(self._live.glob("rank-*.problem"), key=lambda p: p.stat().st_mtime):
            _, number, pid = problem.name.replace("-", ".").split(".")[:3]
            if number.isdigit():
                why = problem.read_text(errors="replace")
                process = Process(pid=int(pid))
                found[int(number)] = RankState(int(number), self._host, process, unobserved=why)
        return list(found.values())

    # --- evidence

    def collect(self, requests: Iterable[EvidenceRequest]) -> None:
        """Begin to collect what was asked for; the next frame carries it."""
        self.begin(self._collect(requests))

    async def _collect(self, requests: Iterable[EvidenceRequest]) -> None:
        work = [
            asyncio.to_thread(
                watcher.read_recorder
                if request.kind is EvidenceKind.RECORDER
                else watcher.take_stack
            )
            for request in requests
            for watcher in self.watchers
            if watcher.rank in request.ranks and watcher.alive
        ]
        await asyncio.gather(*work, return_exceptions=True)
        self.look()
        self._changed.set()

    async def _read_recorders(self) -> None:
        """Read which operation the others were in when a rank died."""
        for pause in _READ_RECORDERS_AFTER:
            await asyncio.sleep(pause)
            answering = [one for one in self.watchers if one.alive or one.was_asked]
            work = (asyncio.to_thread(watcher.read_last_operations) for watcher in answering)
            await asyncio.gather(*work, return_exceptions=True)
            self._changed.set()
        self._reads_recorders = False

    # --- sections that are late

    async def _act_on(self, watcher: RankWatcher, late: list[overdue.MissedDeadline]) -> None:
        """Do for a rank that cannot run what its script asks for when a section times out."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(watcher.take_stack)
        for one in late:
            say(overdue.describe(watcher.rank, one, watcher.why_it_cannot_act()))
            if one.action in ("dump", "abort") and watcher.all_threads():
                say(f"the threads of rank {watcher.rank}:\n{watcher.all_threads().rstrip()}")
            if one.action == "abort":
                await self._abort(watcher, one)

    async def _abort(self, watcher: RankWatcher, late: overdue.MissedDeadline) -> None:
        """End a rank: by SIGABRT, then by SIGKILL."""
        watcher.send(signal.SIGABRT)
        await asyncio.sleep(overdue.KILL_AFTER)
        if watcher.alive and watcher.overdue.still(late):
            watcher.send(signal.SIGKILL)
