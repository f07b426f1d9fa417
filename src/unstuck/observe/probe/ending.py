"""How this rank ends: the exception that ends it, or an orderly exit."""

import atexit
import functools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from unstuck.observe.probe.frames import is_user_code
from unstuck.observe.probe.section_timeout import SectionTimeout
from unstuck.observe.probe.settle_gloo import settle

UNWOUND_WITHIN = 1.0
"""Seconds from sys.exit to the interpreter's end; a script that goes on longer caught it."""


class Ending:
    """Notes the last exception and the phase; `flush` gives the page the final word.

    `stop` ends the helper thread before the interpreter tears itself down: a thread that
    then waits for the GIL inside C++ would abort the process.
    """

    def __init__(self, flush: Callable[[], None], stop: Callable[[], None]) -> None:
        self._flush = flush
        self._stop = stop
        self._pid = os.getpid()
        self.phase = ""
        self.failure: dict[str, Any] | None = None
        self.exit_asked: int | None = None
        """The code that the script ended itself with by sys.exit; None if it did not."""
        self._asked: tuple[int, float] | None = None

    def install(self) -> None:
        """Chain into sys.excepthook, sys.exit and atexit."""
        inner = sys.excepthook

        def excepthook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            self._note_failure(error)
            inner(kind, error, trace)

        sys.excepthook = excepthook
        self._hear_sys_exit()
        atexit.register(self._at_exit)

    def _hear_sys_exit(self) -> None:
        """No hook is called for SystemExit, and others see the exit code only at the end."""
        inner = sys.exit

        @functools.wraps(inner)
        def leave(*status: Any) -> NoReturn:
            if threading.current_thread() is threading.main_thread():
                self._asked = (_code(*status[:1]), time.monotonic())
            inner(*status)

        sys.exit = leave

    def _note_failure(self, error: BaseException | None) -> None:
        if os.getpid() != self._pid or error is None or self.failure is not None:
            return
        try:
            frames = traceback.extract_tb(error.__traceback__)
            self.failure = {
                "type": type(error).__name__,
                "message": str(error)[:2000],
                "at": _user_frame(frames),
                "time": time.monotonic(),
            }
            self.phase = "exception"
            self._flush()
        except Exception:
            return

    def note_overdue(self, error: SectionTimeout) -> None:
        """Note the section for whose sake this process ends itself now."""
        place = [error.file, error.line, error.function] if error.file else None
        self.failure = {
            "type": type(error).__name__,
            "message": str(error),
            "at": place,
            "time": time.monotonic(),
        }
        self.phase = "exception"
        self._flush()

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:
            return
        # The interpreter sets last_value for every uncaught exception, whoever owns the hook.
        self._note_failure(getattr(sys, "last_value", None))
        if self.failure is None:
            self.phase = "exit"
            if self._asked and time.monotonic() - self._asked[1] < UNWOUND_WITHIN:
                self.exit_asked = self._asked[0]
        try:
            self._stop()
            self._flush()
            settle()
        except Exception:
            return


def _code(status: Any = None) -> int:
    """The exit code that the interpreter makes of what sys.exit was given."""
    if status is None:
        return 0
    return status & 0xFF if isinstance(status, int) else 1


def _user_frame(frames: traceback.StackSummary) -> list[Any] | None:
    """The innermost line of the script's own code, else the innermost line."""
    innermost = list(reversed(frames))
    own = [frame for frame in innermost if is_user_code(frame.filename)] or innermost
    return [own[0].filename, own[0].lineno or 0, own[0].name] if own else None
