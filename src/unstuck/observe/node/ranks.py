"""One rank as its node sees it: the page, /proc, and on request the recorder and stacks."""

import contextlib
import os
import signal
import socket
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
    RankSettings,
    RankState,
)
from unstuck.model.waiting import HostWait
from unstuck.observe.node import freezer, procfs, recorder, source, stacks
from unstuck.observe.node.cgroup import OomCounter
from unstuck.observe.node.changing import ChangingFile
from unstuck.observe.node.lastwords import LastWords
from unstuck.observe.node.loops import loops_around, route_to
from unstuck.observe.node.overdue import Late, Overdue
from unstuck.observe.node.pace import Progress, places_of
from unstuck.observe.node.starving import Starving
from unstuck.observe.node.tempo import TempoMeter
from unstuck.observe.node.waiting import HostWaitReader
from unstuck.observe.probe.page import Page, PageReader

STALE = 1.0
"""A beat older than this means that no Python code runs in the process."""
_ANSWER_WITHIN = 3.0
"""The helper thread of a rank runs ten times a second, on a busy machine less often."""
_JUST_NOW = 5.0
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
        self._tempo = TempoMeter(lambda: procfs.thread_delay(self.pid), self._waits_for_disk)
        self._started = now - (procfs.age(self.pid) or 0.0)
        self._gone_at: float | None = None if self.pidfd is not None else now
        self._exit_code: int | None = None
        self._cpu = (now, procfs.thread_cpu(self.pid), 0.0)
        self._starving = Starving(self.pid)
        self._oom = OomCounter(self.pid)
        self._oom_kills = 0
        self._crashed_in = ""
        self._crashed_at: tuple[CodeLine, ...] = ()
        self._members = ChangingFile(f"{self.base}.groups")
        self._settings = ChangingFile(f"{self.base}.settings")
        self._last_words = LastWords(f"{self.base}.last")
        self._asked: socket.socket | None = None
        self.overdue = Overdue()
        self._forget_evidence()

    def _forget_evidence(self) -> None:
        self._recorded: dict[str, GroupProgress] = {}
        self._recorded_at: float | None = None
        self._stack: tuple[CodeLine, ...] = ()
        self._stack_at: float | None = None
        self._importing = False
        self._imports = 0
        """How often it was seen to have come out of an import before it joined."""
        self._threads = ""
        self._loops: tuple[str, ...] | None = None
        self._route: tuple[CodeLine, ...] = ()
        self._gil_held = False
        self._waiting: HostWaitReader | None = None

    @property
    def alive(self) -> bool:
        """True until the end of the process was seen."""
        return self._gone_at is None

    @property
    def exit_code(self) -> int | None:
        """How the process ended; None while it lives, or if that is not known."""
        return self._exit_code

    @property
    def error_file(self) -> str:
        """Where torchrun looks for the reason of this rank's end; empty: nowhere."""
        return str(self._reader.read().report.get("error_file", ""))

    @property
    def store_port(self) -> int:
        """The port of the job's store; 0 where it is not known."""
        port = str(self._reader.read().report.get("attempt", "")).rpartition(":")[2]
        number = port.partition("/")[0]
        return int(number) if number.isdigit() else 0

    def note_death(self, now: float, exit_code: int | None = None) -> None:
        """Note that the process ended, and how."""
        if self._gone_at is None:
            self._gone_at = now
            self._exit_code = self._read_exit_code() if exit_code is None else exit_code
            self._oom_kills = self._oom.kills()
            if self._exit_code is None or self._exit_code < 0:
                self._read_crash()

    def _read_exit_code(self) -> int | None:
        """Ask /proc, which knows until the launcher has reaped the process; then the kernel."""
        found = procfs.exit_code(self.pid)
        return procfs.exit_code_of(self.pidfd) if found is None and self.pidfd else found

    def _read_crash(self) -> None:
        """Read what the process wrote about its own crash; none of a worker it once had."""
        file = f"{self.base}.stacks"
        with contextlib.suppress(OSError, *_NOT_UNDERSTOOD):
            if time.time() - os.path.getmtime(file) > _JUST_NOW:
                return
            ident = self._reader.read().report["main_thread"]
            if crash := stacks.of_crash(Path(file).read_text(errors="replace"), ident):
                self._crashed_in = "python" if crash.in_python else "native"
                self._crashed_at = source.with_source(crash.frames)
                if self._exit_code is None and crash.signal:
                    self._exit_code = -crash.signal

    def glance(self, now: float) -> Page:
        """Read the page and note whether the rank moved: microseconds."""
        page = self._reader.read()
        report = page.report
        done = sum(report.get("groups", {}).values()) + report.get("p2p_issued", 0)
        places = places_of(page.section, report.get("frames", ()))
        if self._progress.look(
            (_frontier(page), self._imports),
            done,
            now,
            waiting=_waits_for_others(report),
            places=places,
            line=places[0] if places else None,
        ):
            self._forget_evidence()
        self._tempo.look(report)
        self._progress.note_step(page.step, now)
        return page

    def _waits_for_disk(self) -> bool:
        found = procfs.stat(self.pid)
        return found is not None and found.state == "D"

    def halted(self, now: float) -> str:
        """Return ` stopped` when it does not beat because it is stopped or frozen; else nothing."""
        if not self.alive or now - self._reader.beat_time() < STALE / 2:
            return ""
        found = procfs.stat(self.pid)
        still = found is not None and (found.state in "Tt" or freezer.frozen(self.pid))
        return " stopped" if still else ""

    def late_sections(self, now: float) -> list[Late]:
        """Return the sections whose time is over and on which the rank itself cannot act."""
        if not self.alive:
            return []
        try:
            return self.overdue.look(self._reader.read(), now)
        except _NOT_UNDERSTOOD:
            return []

    def why_late(self) -> str:
        """Say why a rank does not act by itself when the time of a section is over."""
        found = procfs.stat(self.pid)
        if found is not None and (found.state in "Tt" or freezer.frozen(self.pid)):
            return "while it is stopped"
        line = next((one for one in self._stack or _stack(self._reader.read().report)), None)
        where = f" at {os.path.basename(line.file)}:{line.line} in {line.function}" if line else ""
        return f"and it cannot run Python code{where}"

    def all_threads(self) -> str:
        """Return the stacks of all its threads as they were last taken from outside."""
        return self._threads

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
        self._hear_last_words(report)
        stuck = report.get("status", {}).values()
        behind = sum(enqueued - completed for enqueued, completed in stuck)
        p2p = tuple(PointToPoint(*item) for item in report.get("p2p", []))
        return RankState(
            rank=self.rank,
            host=self.host,
            process=self._process(now),
            attempt=report.get("attempt", ""),
            restarts=report.get("restarts", 0),
            age=round(now - self._started, 3),
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
            places=self._progress.places,
            lines=self._progress.lines,
            pace=self._progress.pace(),
            tempo=self._tempo.tempo(now),
            groups=self._groups(report, behind),
            p2p=p2p,
            stack=self._crashed_at or self._stack or _stack(report),
            loops=_loops_left(report) if report.get("left") else self._loops,
            route=() if report.get("left") else self._route,
            left_for=_age(report["left"]["time"], now) if report.get("left") else None,
            store=report.get("store", ""),
            threads=(self._threads,) if self._threads else (),
            waiting=self._waiting.look(now) if self._waiting and self.alive else HostWait(),
            failure=_failure(report, now),
            crashed_in=self._crashed_in,
            exit_asked=report.get("exit_asked"),
            hook=report.get("hook", ""),
            hook_seconds=report.get("hook_seconds", 0.0),
            recorder_age=_age(self._recorded_at, now),
            stack_age=_age(self._stack_at, now),
            gil_held=self._gil_held,
            settings=_settings(self._settings.read()),
        )

    def stalled_for(self, now: float) -> float:
        """Seconds since the last sign of progress."""
        return self._progress.stalled_for(now)

    def read_recorder(self) -> None:
        """Read the flight recorder in full. May take some 50 ms; run it beside the loop."""
        found = self._ask_recorder()
        if found is not None:
            self._recorded = found
            self._recorded_at = time.monotonic()

    def ask_last_words(self) -> None:
        """Ask the recorder, because another rank has died; the answer is read a little later."""
        if self._asked is None:
            self._asked = recorder.begin(f"{self.base}.sock")

    @property
    def was_asked(self) -> bool:
        """Tell whether an answer of the recorder waits to be read."""
        return self._asked is not None

    def read_last_words(self) -> None:
        """Read the recorder because another rank has died; it is kept for this rank's own end."""
        asked, self._asked = self._asked, None
        self._last_words.keep(self._ask_recorder(asked) or {})

    def _hear_last_words(self, report: dict[str, Any]) -> None:
        """A rank that fails writes down by itself what it was in: nobody else may be in time."""
        with contextlib.suppress(OSError, *_NOT_UNDERSTOOD):
            if dump := self._last_words.own(report.get("phase", "")):
                self._last_words.keep(self._understand(dump, report))

    def _ask_recorder(self, asked: socket.socket | None = None) -> dict[str, GroupProgress] | None:
        report = self._reader.read().report
        try:
            dump = recorder.finish(asked) if asked else recorder.read(f"{self.base}.sock")
            return self._understand(dump, report)
        except (OSError, ValueError):
            return None

    def _understand(self, dump: dict[str, Any], report: dict[str, Any]) -> dict[str, GroupProgress]:
        known = self._groups(report, 0)
        found = recorder.progress(dump, known, time.time(), report.get("roots"))
        return {group.name: group for group in found if group.pending or group.recent}

    def take_stack(self) -> None:
        """Ask for the stacks of all threads. Some 100 ms; run it beside the loop.

        What the rank waits for on its host is read before that, as a signal wakes it.
        """
        self._waiting = HostWaitReader(self.pid, time.monotonic())
        report = self._reader.read().report
        state = procfs.stat(self.pid)
        if state is not None and state.state not in "TtZX" and not freezer.frozen(self.pid):
            with contextlib.suppress(OSError):
                # One that does not answer once, on a busy machine, is where it was.
                if text := self._ask_stacks(report):
                    self._understand_stacks(text, report)
        self._stack_at = time.monotonic()

    def _ask_stacks(self, report: dict[str, Any]) -> str:
        """Ask the helper thread, or by a signal where no Python code runs; empty: no answer."""
        file = f"{self.base}.stacks"
        if self._beats():
            text = stacks.take(self._reader.ask, file, _ANSWER_WITHIN, self._beats)
            if text or self._beats():
                self._gil_held = False
                return text
        number = report.get("stack_signal") or 0
        # Not on the word of the page alone: after an exec the page is another program's.
        if not procfs.catches(self.pid, number):
            return ""
        self._gil_held = report.get("phase") != "exit" and recorder.answers(f"{self.base}.sock")
        return stacks.take(lambda: os.kill(self.pid, number), file)

    def _beats(self) -> bool:
        return time.monotonic() - self._reader.beat_time() <= STALE

    def _understand_stacks(self, text: str, report: dict[str, Any]) -> None:
        self._threads = text
        frames = stacks.main_thread(text, report["main_thread"])
        self._stack = source.with_source(frames)
        self._loops = loops_around((frame.file, frame.line) for frame in frames)
        self._route = route_to(frames)
        if report.get("phase", "start") == "start":
            self._note_import(frames)

    def _note_import(self, frames: tuple[CodeLine, ...]) -> None:
        """The end of an import is progress, and before a rank joins only its stack shows it."""
        importing = any("importlib" in frame.file for frame in frames)
        self._imports += self._importing and not importing
        self._importing = importing

    def send(self, number: int) -> None:
        """Send it a signal; through its pidfd, so that no other process can get it."""
        if self.pidfd is not None and self.alive:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self.pidfd, number)

    def close(self, *, remove: bool) -> None:
        """Let go of the page; `remove` deletes the rank's files as well."""
        self._reader.close()
        if self._asked is not None:
            self._asked.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
        if remove:
            for ending in ("page", "sock", "stacks", "groups", "settings", "last", "born"):
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
        self._starving.look(now)
        return Process(
            pid=self.pid,
            state=self._state(found.state, now),
            waits_in=procfs.waits_in(self.pid),
            cpu=self._cpu_share(now),
            delayed=self._starving.delayed or 0.0,
            throttled=self._starving.throttled or 0.0,
            cores=self._starving.cores,
            rss=found.rss,
        )

    def _state(self, letter: str, now: float) -> str:
        still = self._progress.stalled_for(now) > STALE
        return "F" if still and freezer.frozen(self.pid) else letter

    def _cpu_share(self, now: float) -> float:
        then, used, share = self._cpu
        if now - then >= 0.5:
            fresh = procfs.thread_cpu(self.pid)
            share = round(min(1.0, (fresh - used) / (now - then)), 3)
            self._cpu = (now, fresh, share)
        return share

    def _groups(self, report: dict[str, Any], behind: int) -> tuple[GroupProgress, ...]:
        members = self._members.read()
        over = not self.alive or report.get("phase") in ("exception", "exit")
        found: list[GroupProgress] = []
        for name, enqueued in report.get("groups", {}).items():
            about = members.get(name, {})
            found.append(
                self._recorded.get(name)
                or self._last_words.of(name, enqueued, stuck=over or behind > 0)
                or GroupProgress(
                    name=name,
                    ranks=tuple(about.get("ranks", ())),
                    enqueued=enqueued,
                    completed=max(0, enqueued - behind),
                    description=about.get("description", ""),
                    backend=about.get("backend", ""),
                    timeout=about.get("timeout", 0.0),
                )
            )
        return tuple(found)

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


def _waits_for_others(report: dict[str, Any]) -> bool:
    if report.get("phase") == "init" or report.get("p2p"):
        return True
    return any(enqueued > completed for enqueued, completed in report.get("status", {}).values())


def _loops_left(report: dict[str, Any]) -> tuple[str, ...] | None:
    return loops_around((file, line) for file, line in report["left"]["stack"])


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


def _settings(told: dict[str, Any]) -> RankSettings:
    return RankSettings(store=told.get("store", 0.0), env=told.get("env", {}))


def _failure(report: dict[str, Any], now: float) -> Failure | None:
    found = report.get("failure")
    if not found:
        return None
    at = found["at"] and CodeLine(*found["at"], text=source.line(*found["at"][:2]), user=True)
    age = round(now - found["time"], 3)
    return Failure(type=found["type"], message=found["message"], age=age, at=at)


def _age(then: float | None, now: float) -> float | None:
    return None if then is None else round(max(0.0, now - then), 3)
