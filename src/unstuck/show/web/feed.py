"""What browsers are sent as it happens: built once for all of them, the newest only."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from itertools import groupby
from typing import Any

import msgspec

from unstuck.explain.report import notice as notice_words
from unstuck.explain.view.job_view import JobView, view_job
from unstuck.model.snapshot import Snapshot
from unstuck.show.web.sources import Folder, Source
from unstuck.show.web.spent import Spent

_EVERY = 1.0
_AT_ONCE_AFTER = 0.05
_REST = 3.0
"""Times the building itself: in a job of 100,000 ranks it is done less often."""
_STILL_THERE = 15.0
MOST_HOSTS = 64


class Feed:
    """The events of one run."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.folder = Folder(source.run)
        self.view: JobView | None = None
        self.spent = Spent()
        self._layout = b""
        self._job = b""
        self._version = 0
        self._changed = asyncio.Condition()
        self._readers = 0

    async def run(self) -> None:
        """Keep it current while somebody looks; returns only by being cancelled."""
        while True:
            began = time.monotonic()
            await self.refresh()
            took = time.monotonic() - began
            await self._pause(max(_EVERY, took * _REST))

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(_AT_ONCE_AFTER)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.source.news.wait()
        self.source.news.clear()

    async def refresh(self) -> JobView:
        """Build the view of this moment, beside the event loop, and tell everybody."""
        source = self.source
        snapshot = source.snapshot()
        view = await asyncio.to_thread(view_job, snapshot, source.verdict, source.notices)
        self.spent.note(view)
        incidents = await asyncio.to_thread(self.folder.incidents)
        layout = msgspec.json.encode(_layout(view))
        job = msgspec.json.encode({**_job(view, source), "incidents": incidents, **self._time()})
        async with self._changed:
            self.view = view
            if layout != self._layout:
                self._layout = layout
            self._job = job
            self._version += 1
            self._changed.notify_all()
        return view

    def _time(self) -> dict[str, Any]:
        point = self.spent.points[-1] if self.spent.points else None
        return {"spent": self.spent.seconds, "point": point}

    def past(self) -> dict[str, Any]:
        """Return the time line so far."""
        return {"points": list(self.spent.points)}

    async def events(self) -> AsyncIterator[bytes]:
        """Yield server-sent events; whoever is slow gets the newest only."""
        seen, layout = -1, b""
        while True:
            async with self._changed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_STILL_THERE):
                        await self._changed.wait_for(lambda: self._version != seen)  # noqa: B023
                fresh, seen = seen != self._version, self._version
                send_layout, job = layout is not self._layout, self._job
                layout = self._layout
            if not fresh:
                yield b": still there\n\n"
                continue
            if send_layout and layout:
                yield b"event: layout\ndata: " + layout + b"\n\n"
            if job:
                yield b"event: job\ndata: " + job + b"\n\n"

    def snapshot(self) -> Snapshot:
        """Return the job as it is."""
        return self.source.snapshot()


def _layout(view: JobView) -> dict[str, Any]:
    """Return which cell of the grid is which rank; sent again only when that changes."""
    grid = view.grid
    return {
        "ranks": runs_of_numbers(grid.ranks),
        "hosts": [(host.name, host.first, host.count) for host in grid.hosts],
    }


def _job(view: JobView, source: Source) -> dict[str, Any]:
    verdict, time_view = view.verdict, view.time
    hosts = view.grid.hosts
    unwell = [
        (i, host.life, host.silent_for) for i, host in enumerate(hosts) if host.life != "alive"
    ]
    return {
        "live": source.live,
        "connected": source.connected,
        "at": view.taken_at,
        "world": view.world_size,
        "attempt": view.attempt,
        "step": view.step,
        "states": runs(view.grid.states),
        "counts": view.counts,
        "hosts": unwell[:MOST_HOSTS],
        "pressure": [host.pressure for host in hosts[:MOST_HOSTS]],
        "groups": view.groups[:MOST_HOSTS],
        "time": {
            "unit": time_view.unit,
            "step": time_view.step,
            "own": time_view.own,
            "measured": time_view.measured,
            "slowest": time_view.slowest,
        },
        "verdict": msgspec.structs.replace(verdict, victims=()) if verdict else None,
        "culprits": view.culprits,
        "victims": view.victims,
        "notices": [" ".join(notice_words.begins(one)) for one in view.notices],
        "paused": view.paused_left,
    }


def runs(letters: str) -> str:
    """Write each run of a letter as the letter and its length.

    Example:
        >>> runs("wwwb")
        'w3b1'
    """
    return "".join(f"{letter}{sum(1 for _ in run)}" for letter, run in groupby(letters))


def runs_of_numbers(numbers: tuple[int, ...]) -> list[tuple[int, int]]:
    """Write each run of consecutive numbers as its first and its length.

    Example:
        >>> runs_of_numbers((0, 1, 2, 7))
        [(0, 3), (7, 1)]
    """
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and sum(found[-1]) == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found
