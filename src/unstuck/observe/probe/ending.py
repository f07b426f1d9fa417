"""How this rank ends: the exception that ends it, or an orderly exit."""

import atexit
import os
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from unstuck.observe.probe.frames import is_user_code


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

    def install(self) -> None:
        """Chain into sys.excepthook and atexit."""
        inner = sys.excepthook

        def excepthook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            self._note_failure(error)
            inner(kind, error, trace)

        sys.excepthook = excepthook
        atexit.register(self._at_exit)

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

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:
            return
        # The interpreter sets last_value for every uncaught exception, whoever owns the hook.
        self._note_failure(getattr(sys, "last_value", None))
        if self.failure is None:
            self.phase = "exit"
        try:
            self._stop()
            self._flush()
        except Exception:
            return


def _user_frame(frames: traceback.StackSummary) -> list[Any] | None:
    """The innermost line of the script's own code, else the innermost line."""
    innermost = list(reversed(frames))
    own = [frame for frame in innermost if is_user_code(frame.filename)] or innermost
    return [own[0].filename, own[0].lineno or 0, own[0].name] if own else None
