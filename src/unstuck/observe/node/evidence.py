"""What a rank's node gathers on request while the rank makes no progress: recorder and stacks."""

import contextlib
import os
import time
from typing import Any

from unstuck.model.rank import CodeLine, GroupProgress
from unstuck.observe.node import recorder, source_text, stacks
from unstuck.observe.node.loops import loops_around, route_to
from unstuck.observe.node.process import cgroup, procfs
from unstuck.observe.node.process.signs_of_life import SignsOfLife
from unstuck.observe.node.process.waits_for import HostWaitReader
from unstuck.observe.probe.page import PageReader

STALE = 1.0
"""A beat older than this means that no Python code runs in the process."""
_ANSWER_WITHIN = 3.0
"""The helper thread of a rank runs ten times a second, on a busy machine less often."""


class Evidence:
    """All of it for one rank; thrown away as soon as the rank makes progress again."""

    def __init__(self, pid: int, base: str, reader: PageReader) -> None:
        self._pid = pid
        self._base = base
        self._reader = reader
        self._importing = False
        self.imports = 0
        """How often the rank was seen to have finished an import before it joined."""
        self.recorded: dict[str, GroupProgress] = {}
        self.recorded_at: float | None = None
        self.stack: tuple[CodeLine, ...] = ()
        self.stack_at: float | None = None
        self.threads = ""
        self.elsewhere: tuple[CodeLine, ...] | None = None
        self.loops: tuple[str, ...] | None = None
        self.route: tuple[CodeLine, ...] = ()
        self.gil_held = False
        self.waiting: HostWaitReader | None = None
        self.life: SignsOfLife | None = None

    def take_stack(self, lines: int) -> None:
        """Ask for the stacks of all threads. Some 100 ms; run it beside the loop.

        What the rank waits for on its host is read before that, as a signal wakes it. From then on
        its signs of life are followed; `lines` is at how many lines of its script it has been.
        """
        if self.life is None:
            self.life = SignsOfLife(self._pid, time.monotonic(), lines)
        self.waiting = HostWaitReader(self._pid, time.monotonic())
        report = self._reader.read().report
        state = procfs.stat(self._pid)
        if state is not None and state.state not in "TtZX" and not cgroup.frozen(self._pid):
            with contextlib.suppress(OSError):
                # One that does not answer once, on a busy machine, is where it was.
                if text := self._ask_stacks(report):
                    self._understand_stacks(text, report)
        self.stack_at = time.monotonic()
        # Writing its stacks down is no sign of life.
        self.life.forget_own(self.stack_at, lines)

    def _ask_stacks(self, report: dict[str, Any]) -> str:
        """Ask the helper thread, or by a signal where no Python code runs; empty: no answer."""
        file = f"{self._base}.stacks"
        if self._beats():
            text = stacks.take(self._reader.ask, file, _ANSWER_WITHIN, self._beats)
            if text or self._beats():
                self.gil_held = False
                return text
        number = report.get("stack_signal") or 0
        # Not on the word of the page alone: after an exec the page is another program's.
        if not procfs.catches(self._pid, number):
            return ""
        self.gil_held = report.get("phase") != "exit" and recorder.answers(f"{self._base}.sock")
        return stacks.take(lambda: os.kill(self._pid, number), file)

    def _beats(self) -> bool:
        return time.monotonic() - self._reader.beat_time() <= STALE

    def _understand_stacks(self, text: str, report: dict[str, Any]) -> None:
        self.threads = text
        frames = stacks.main_thread(text, report["main_thread"])
        self.stack = source_text.with_source(frames)
        self.elsewhere = (
            None
            if self.gil_held
            else source_text.innermost_of(stacks.other_threads(text, report["main_thread"]))
        )
        self.loops = loops_around((frame.file, frame.line) for frame in frames)
        self.route = route_to(frames)
        if report.get("phase", "start") == "start":
            self._note_import(frames)

    def _note_import(self, frames: tuple[CodeLine, ...]) -> None:
        """The end of an import is progress, and before a rank joins only its stack shows it."""
        importing = any("importlib" in frame.file for frame in frames)
        self.imports += self._importing and not importing
        self._importing = importing
