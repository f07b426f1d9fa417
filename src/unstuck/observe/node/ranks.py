"""One rank as its node sees it: the page, /proc, and on request the recorder and stacks."""

import contextlib
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from unstuck.model.bounds import bounded
from unstuck.model.life import Life
from unstuck.model.neighbour import HostWait
from unstuck.model.rank import (
    CodeLine,
    GroupProgress,
    Phase,
    PointToPoint,
    Process,
    ProcessState,
    RankSettings,
    RankState,
)
from unstuck.observe.node import page_report, recorder, source_text, stacks
from unstuck.observe.node.evidence import STALE, Evidence
from unstuck.observe.node.last_operation import LastOperations
from unstuck.observe.node.overdue import MissedDeadline, MissedDeadlines
from unstuck.observe.node.pace import Progress, places_of
from unstuck.observe.node.printed import Printed
from unstuck.observe.node.process import cgroup, procfs
from unstuck.observe.node.process.cgroup import OomCounter
from unstuck.observe.node.process.starving import Starving
from unstuck.observe.node.rank_file import ChangingFile
from unstuck.observe.node.tempo import TempoMeter
from unstuck.observe.probe.page import Page, PageReader

_JUST_NOW = 5.0
_ASKED_TO_END = (0, -signal.SIGTERM)
_NOT_UNDERSTOOD = (
    AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError
)  # fmt: skip
_state_encoder = msgspec.msgpack.Encoder()
_state_decoder = msgspec.msgpack.Decoder(RankState)


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
        self._printed = Printed(self.pid)
        self._members = ChangingFile(f"{self.base}.groups")
        self._settings = ChangingFile(f"{self.base}.settings")
        self._last_operations = LastOperations(f"{self.base}.last")
        self._asked: socket.socket | None = None
        self.overdue = MissedDeadlines()
        self._evidence = Evidence(self.pid, self.base, self._reader)

    @property
    def alive(self) -> bool:
        """True until the end of the process was seen."""
        return self._gone_at is None

    @property
    def exit_code(self) -> int | None:
        """How the process ended; None while it lives, or if that is not known."""
        return self._exit_code

    @property
    def top(self) -> int:
        """The highest process with this rank's number: a wrapper of this one, or itself."""
        return self._said("top", self.pid)

    @property
    def joined(self) -> bool:
        """Tell whether it has called `init_process_group`: a page that cannot say is a rank's."""
        return bool(self._said("joined", 1))

    @property
    def is_over(self) -> bool:
        """Tell whether the process has ended or is about to."""
        return not self.alive or self._reader.read().report.get("phase") in ("exception", "exit")

    def _said(self, name: str, otherwise: int) -> int:
        try:
            return int(self._reader.read().report.get(name, otherwise))
        except _NOT_UNDERSTOOD:
            return otherwise

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
                self._crashed_at = source_text.with_source(crash.frames)
                if self._exit_code is None and crash.signal:
                    self._exit_code = -crash.signal

    def glance(self, now: float) -> Page:
        """Read the page and note whether the rank moved: microseconds."""
        page = self._reader.read()
        report = page.report
        # The file has the number that its launcher gave it; the script's own word counts.
        self.rank = report.get("rank", self.rank)
        done = sum(report.get("groups", {}).values()) + report.get("p2p_issued", 0)
        places = places_of(page.section, report.get("frames", ()))
        if self._progress.look(
            (page_report.frontier(page), self._evidence.imports),
            done,
            now,
            waiting=page_report.waits_for_others(report),
            places=places,
            line=places[0] if places else None,
        ):
            self._evidence = Evidence(self.pid, self.base, self._reader)
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
        still = found is not None and (found.state in "Tt" or cgroup.frozen(self.pid))
        return " stopped" if still else ""

    def missed_deadlines(self, now: float) -> list[MissedDeadline]:
        """Return the sections past their deadline on which the rank itself cannot act."""
        if not self.alive:
            return []
        try:
            return self.overdue.look(self._reader.read(), now)
        except _NOT_UNDERSTOOD:
            return []

    def why_it_cannot_act(self) -> str:
        """Say why the rank does not act itself on a deadline that has passed."""
        found = procfs.stat(self.pid)
        if found is not None and (found.state in "Tt" or cgroup.frozen(self.pid)):
            return "while it is stopped"
        line = next(
            (one for one in self._evidence.stack or page_report.stack(self._reader.read().report)),
            None,
        )
        where = f" at {os.path.basename(line.file)}:{line.line} in {line.function}" if line else ""
        return f"and it cannot run Python code{where}"

    def all_threads(self) -> str:
        """Return the stacks of all its threads as they were last taken from outside."""
        return self._evidence.threads

    def phase(self, now: float) -> str:
        """Return the phase on the page; empty when the page cannot be understood."""
        try:
            return str(self.glance(now).report.get("phase", ""))
        except _NOT_UNDERSTOOD:
            return ""

    def look(self, now: float) -> RankState:
        """Return the rank's whole state, as the page and /proc show it.

        A page that another version of unstuck wrote, or one with impossible numbers, makes its
        rank unobserved, no more.
        """
        try:
            return _state_decoder.decode(_state_encoder.encode(self._look(now)))
        except _NOT_UNDERSTOOD as error:
            why = f"its page cannot be understood ({type(error).__name__}: {error})"
            return RankState(self.rank, self.host, self._process(now), unobserved=why)

    def _look(self, now: float) -> RankState:
        page = self.glance(now)
        report = page.report
        self._read_own_last_operations(report)
        evidence = self._evidence
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
            phase=Phase(report.get("phase", "start")),
            step=page.step,
            sections=(page.section,) if page.section else (),
            section_left=_left(page, now),
            beat_age=round(max(0.0, now - page.beat_time), 3),
            stalled_for=round(self._progress.stalled_for(now), 3),
            in_flight=behind > 0 or bool(p2p),
            places=self._progress.places,
            lines=self._progress.lines,
            pace=self._progress.pace(),
            tempo=self._tempo.tempo(now),
            groups=self._groups(report, behind),
            p2p=p2p,
            stack=self._crashed_at or evidence.stack or page_report.stack(report),
            loops=page_report.loops_left(report) if report.get("left") else evidence.loops,
            route=() if report.get("left") else evidence.route,
            left_for=page_report.age(report["left"]["time"], now) if report.get("left") else None,
            store=report.get("store", ""),
            threads=(evidence.threads,) if evidence.threads else (),
            elsewhere=evidence.elsewhere,
            waiting=evidence.waiting.look(now) if evidence.waiting and self.alive else HostWait(),
            life=self._life(now),
            failure=page_report.failure(report, now),
            printed=self._last_words(report),
            crashed_in=self._crashed_in,
            exit_asked=report.get("exit_asked"),
            handling=str(report.get("handling", "")),
            hook=report.get("hook", ""),
            hook_seconds=bounded(report.get("hook_seconds", 0.0)),
            recorder_age=page_report.age(evidence.recorded_at, now),
            stack_age=page_report.age(evidence.stack_at, now),
            gil_held=evidence.gil_held,
            settings=msgspec.convert(self._settings.read(), RankSettings),
        )

    def stalled_for(self, now: float) -> float:
        """Seconds since the last sign of progress."""
        return self._progress.stalled_for(now)

    def read_recorder(self) -> None:
        """Read the flight recorder in full. May take some 50 ms; run it beside the loop."""
        found = self._ask_recorder()
        if found is not None:
            self._evidence.recorded = found
            self._evidence.recorded_at = time.monotonic()

    def ask_last_operations(self) -> None:
        """Ask the recorder, because another rank has died; the answer is read a little later."""
        if self._asked is None and "calls" not in self._reader.read().report:
            self._asked = recorder.begin(f"{self.base}.sock")

    @property
    def was_asked(self) -> bool:
        """Tell whether an answer of the recorder waits to be read."""
        return self._asked is not None

    def read_last_operations(self) -> None:
        """Read the recorder because another rank has died; it is kept for this rank's own end."""
        asked, self._asked = self._asked, None
        self._last_operations.keep(self._ask_recorder(asked) or {})

    def _read_own_last_operations(self, report: dict[str, Any]) -> None:
        """Read what a failing rank wrote about itself: nobody else may be in time."""
        with contextlib.suppress(OSError, *_NOT_UNDERSTOOD):
            if dump := self._last_operations.own(report.get("phase", "")):
                self._last_operations.keep(self._understand(dump, report))

    def _ask_recorder(self, asked: socket.socket | None = None) -> dict[str, GroupProgress] | None:
        report = self._reader.read().report
        try:
            if "calls" in report:
                dump = {"entries": report["calls"]}
            else:
                dump = recorder.finish(asked) if asked else {}
                dump = dump if dump.get("entries") else recorder.read(f"{self.base}.sock")
            return self._understand(dump, report)
        except (OSError, ValueError):
            return None

    def _understand(self, dump: dict[str, Any], report: dict[str, Any]) -> dict[str, GroupProgress]:
        known = self._groups(report, 0)
        found = recorder.progress(dump, known, time.time(), report.get("roots"))
        return {group.name: group for group in found if group.pending or group.recent}

    def take_stack(self) -> None:
        """Ask for the stacks of all threads. Some 100 ms; run it beside the loop."""
        self._evidence.take_stack(self._progress.lines)

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

    def _life(self, now: float) -> Life | None:
        following = self._evidence.life if self.alive else None
        return following.look(now, self._progress.lines) if following else None

    def _process(self, now: float) -> Process:
        if self._gone_at is not None:
            return Process(
                pid=self.pid,
                state=ProcessState.GONE,
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

    def _state(self, letter: str, now: float) -> ProcessState:
        still = self._progress.stalled_for(now) > STALE
        return ProcessState("F" if still and cgroup.frozen(self.pid) else letter)

    def _cpu_share(self, now: float) -> float:
        then, used, share = self._cpu
        if now - then >= 0.5:
            fresh = procfs.thread_cpu(self.pid)
            share = round(min(1.0, (fresh - used) / (now - then)), 3)
            self._cpu = (now, fresh, share)
        return share

    def _last_words(self, report: dict[str, Any]) -> tuple[str, ...]:
        """Return what it printed last, if it failed or somebody asked what it is doing."""
        if not self.alive:
            failed = self._exit_code not in _ASKED_TO_END
        else:
            failed = report.get("phase") == "exception" or self._evidence.stack_at is not None
        return self._printed.last(str(report.get("error_file", ""))) if failed else ()

    def _groups(self, report: dict[str, Any], behind: int) -> tuple[GroupProgress, ...]:
        members = self._members.read()
        over = not self.alive or report.get("phase") in ("exception", "exit")
        found: list[GroupProgress] = []
        for name, enqueued in report.get("groups", {}).items():
            about = members.get(name, {})
            found.append(
                self._evidence.recorded.get(name)
                or self._last_operations.of(name, enqueued, stuck=over or behind > 0)
                or GroupProgress(
                    name=name,
                    ranks=tuple(about.get("ranks", ())),
                    enqueued=enqueued,
                    completed=max(0, enqueued - behind),
                    description=about.get("description", ""),
                    backend=about.get("backend", ""),
                    timeout=bounded(about.get("timeout", 0.0)),
                )
            )
        return tuple(found)

    def _unobserved(self, report: dict[str, Any]) -> str:
        if not report:
            return "its page is empty: the probe did not finish starting"
        return report.get("unobserved") or report.get("problem") or ""


def _left(page: Page, now: float) -> float | None:
    return round(bounded(page.section_deadline - now), 3) if page.section_deadline else None


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
