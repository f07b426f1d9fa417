"""One rank as its node sees it: the page, /proc, and on request the recorder and stacks."""

import contextlib
import json
import os
import time
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from unstuck.model.rank import (
    CodeLine,
    Failure,
    GroupProgress,
    PointToPoint,
    Process,
    RankState,
)
from unstuck.observe.node import procfs, recorder, source, stacks
from unstuck.observe.node.cgroup import OomCounter
from unstuck.observe.node.pace import Progress
from unstuck.observe.probe.frames import is_user_code
from unstuck.observe.probe.page import Page, PageReader

STALE = 1.0
"""A beat older than this means that no Python code runs in the process."""
_FRAMES = 8
_NOT_UNDERSTOOD = (AttributeError, LookupError, TypeError, ValueError)


class RankWatcher:
    """Follows one process of one rank from its first page to its end."""

    def __init__(self, page: Path, host: str, now: float) -> None:
        """Open the page; `now` is CLOCK_MONOTONIC.

        Raises:
            OSError: the process is gone already and left nothing to see.
        """
        self.base = str(page)[: -len(".page")]
        _, number, pid = page.name.replace("-", ".").split(".")[:3]
        self.rank, self.pid, self.host = int(number), int(pid), host
        self._reader = PageReader(str(page))
        self.pidfd = _open_pidfd(self.pid)
        self._progress = Progress(now)
        self._gone_at: float | None = None if self.pidfd is not None else now
        self._exit_code: int | None = None
        self._cpu = (now, procfs.thread_cpu(self.pid), 0.0)
        self._oom = OomCounter(self.pid)
        self._oom_kills = 0
        self._members: tuple[float, dict[str, Any]] = (0.0, {})
        self._forget_evidence()

    def _forget_evidence(self) -> None:
        self._recorded: dict[str, GroupProgress] = {}
        self._recorded_at: float | None = None
        self._stack: tuple[CodeLine, ...] = ()
        self._stack_at: float | None = None
        self._threads = ""
        self._gil_held = False

    @property
    def alive(self) -> bool:
        """True until the end of the process was seen."""
        return self._gone_at is None

    def note_death(self, now: float, exit_code: int | None = None) -> None:
        """Note that the process ended; its exit code can be read until its parent reaps it."""
        if self._gone_at is None:
            self._gone_at = now
            self._exit_code = procfs.exit_code(self.pid) if exit_code is None else exit_code
            self._oom_kills = self._oom.kills()

    def glance(self, now: float) -> Page:
        """Read the page and note whether the rank moved: microseconds, no system call."""
        page = self._reader.read()
        report = page.report
        done = sum(report.get("groups", {}).values()) + report.get("p2p_issued", 0)
        if self._progress.look(_frontier(page), done, now):
            self._forget_evidence()
        return page

    def phase(self, now: float) -> str:
        """Return how far the process has come; empty when its page cannot be understood."""
        try:
            return str(self.glance(now).report.get("phase", ""))
        except _NOT_UNDERSTOOD:
            return ""

    def look(self, now: float) -> RankState:
        """Return the rank's whole state, as the page and /proc show it.

        A page that another version of unstuck wrote makes its rank unobserved, no more.
        """
        try:
            return self._look(now)
        except _NOT_UNDERSTOOD as error:
            why = f"its page cannot be understood ({type(error).__name__}: {error})"
            return RankState(self.rank, self.host, self._process(now), unobserved=why)

    def _look(self, now: float) -> RankState:
        page = self.glance(now)
        report = page.report
        stuck = report.get("status", {}).values()
        behind = sum(enqueued - completed for enqueued, completed in stuck)
        p2p = tuple(PointToPoint(*item) for item in report.get("p2p", []))
        return RankState(
            rank=self.rank,
            host=self.host,
            process=self._process(now),
            attempt=report.get("attempt", ""),
            restarts=report.get("restarts", 0),
            age=round(now - report.get("started", now), 3),
            world_size=report.get("world_size", 0),
            local_rank=report.get("local_rank", 0),
            unobserved=self._unobserved(report),
            phase=report.get("phase", "start"),
            step=page.step,
            sections=(page.section,) if page.section else (),
            section_left=round(page.section_deadline - now, 3) if page.section_deadline else None,
            beat_age=round(max(0.0, now - page.beat_time), 3),
            stalled_for=round(self._progress.stalled_for(now), 3),
            in_flight=behind > 0 or bool(p2p),
            pace=self._progress.pace(),
            groups=self._groups(report, behind),
            p2p=p2p,
            stack=self._stack or _stack(report),
            threads=(self._threads,) if self._threads else (),
            failure=_failure(report, now),
            recorder_age=_age(self._recorded_at, now),
            stack_age=_age(self._stack_at, now),
            gil_held=self._gil_held,
        )

    def stalled_for(self, now: float) -> float:
        """Seconds since the last sign of progress."""
        return self._progress.stalled_for(now)

    def read_recorder(self) -> None:
        """Read the flight recorder in full. May take some 50 ms; run it beside the loop."""
        report = self._reader.read().report
        try:
            dump = recorder.read(f"{self.base}.sock")
        except (OSError, ValueError):
            return
        known = self._groups(report, 0)
        found = recorder.progress(dump, known, time.time())
        self._recorded = {group.name: group for group in found if group.pending or group.recent}
        self._recorded_at = time.monotonic()

    def take_stack(self) -> None:
        """Take the stacks of all threads from outside. Some 20 ms; run it beside the loop."""
        page = self._reader.read()
        report = page.report
        state = procfs.stat(self.pid)
        if state is None or state.state in "TtZX" or not report.get("stack_signal"):
            self._stack_at = time.monotonic()
            return
        stale = time.monotonic() - page.beat_time > STALE
        self._gil_held = (
            stale and report.get("phase") != "exit" and recorder.answers(f"{self.base}.sock")
        )
        with contextlib.suppress(OSError):
            self._threads = stacks.take(self.pid, report["stack_signal"], f"{self.base}.stacks")
            frames = stacks.main_thread(self._threads, report["main_thread"])
            self._stack = _with_source(frames)
        self._stack_at = time.monotonic()

    def close(self, *, remove: bool) -> None:
        """Let go of the page; `remove` deletes the rank's files as well."""
        self._reader.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
        if remove:
            for ending in ("page", "sock", "stacks", "groups"):
                Path(f"{self.base}.{ending}").unlink(missing_ok=True)

    def _process(self, now: float) -> Process:
        if self._gone_at is not None:
            return Process(
                pid=self.pid,
                state="gone",
                exit_code=self._exit_code,
                gone_for=round(now - self._gone_at, 3),
                oom_kills=self._oom_kills,
            )
        found = procfs.stat(self.pid)
        if found is None:
            return Process(pid=self.pid)
        return Process(
            pid=self.pid,
            state=found.state,
            waits_in=procfs.waits_in(self.pid),
            cpu=self._cpu_share(now),
            rss=found.rss,
        )

    def _cpu_share(self, now: float) -> float:
        then, used, share = self._cpu
        if now - then >= 0.5:
            fresh = procfs.thread_cpu(self.pid)
            share = round(min(1.0, (fresh - used) / (now - then)), 3)
            self._cpu = (now, fresh, share)
        return share

    def _groups(self, report: dict[str, Any], behind: int) -> tuple[GroupProgress, ...]:
        members = self._read_members()
        found: list[GroupProgress] = []
        for name, enqueued in report.get("groups", {}).items():
            about = members.get(name, {})
            found.append(
                self._recorded.get(name)
                or GroupProgress(
                    name=name,
                    ranks=tuple(about.get("ranks", ())),
                    enqueued=enqueued,
                    completed=max(0, enqueued - behind),
                    description=about.get("description", ""),
                    backend=about.get("backend", ""),
                )
            )
        return tuple(found)

    def _read_members(self) -> dict[str, Any]:
        path = f"{self.base}.groups"
        with contextlib.suppress(OSError, ValueError):
            changed = os.stat(path).st_mtime
            if changed != self._members[0]:
                self._members = (changed, json.loads(Path(path).read_text()))
        return self._members[1]

    def _unobserved(self, report: dict[str, Any]) -> str:
        if not report:
            return "its page is empty: the probe did not finish starting"
        return report.get("unobserved") or report.get("problem") or ""


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _frontier(page: Page) -> Hashable:
    """What must move for a rank to be called moving. Beats and stacks do not count."""
    report = page.report
    return (
        page.step,
        page.section_changes,
        report.get("phase"),
        tuple(report.get("groups", {}).items()),
        tuple((key, *value) for key, value in report.get("status", {}).items()),
        report.get("p2p_issued"),
        len(report.get("p2p", ())),
    )


def _stack(report: dict[str, Any]) -> tuple[CodeLine, ...]:
    return tuple(
        CodeLine(
            file=file,
            line=number,
            function=function,
            text=source.line(file, number) if user or not index else "",
            user=user,
        )
        for index, (file, number, function, user) in enumerate(report.get("frames", []))
    )


def _with_source(frames: tuple[CodeLine, ...]) -> tuple[CodeLine, ...]:
    """Keep the innermost frames down to the user's own one, with their source lines."""
    kept: list[CodeLine] = []
    for frame in frames:
        user = is_user_code(frame.file)
        if len(kept) < _FRAMES or user:
            text = source.line(frame.file, frame.line)
            kept.append(CodeLine(frame.file, frame.line, frame.function, text, user))
        if user:
            break
    return tuple(kept)


def _failure(report: dict[str, Any], now: float) -> Failure | None:
    found = report.get("failure")
    if not found:
        return None
    at = found["at"] and CodeLine(*found["at"], text=source.line(*found["at"][:2]), user=True)
    age = round(now - found["time"], 3)
    return Failure(type=found["type"], message=found["message"], age=age, at=at)


def _age(then: float | None, now: float) -> float | None:
    return None if then is None else round(max(0.0, now - then), 3)
