"""Ctrl-C and SIGTERM at any time, but never in the middle of a setup or clean-up."""

import contextlib
import signal
import threading
from collections.abc import Generator
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns the signals that end a command into an exception, and can hold them back.

    Uses a Python handler, never SIG_IGN or a blocked signal, which children would inherit.

    Example:
        with Interrupts() as interrupts:
            with interrupts.held():
                start_a_job()
    """

    def __init__(self) -> None:
        self._depth = 0
        self._pending: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._handle) for each in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Hold signals back until the end of the block, then act on the one that arrived."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0 and self._pending is not None:
                pending, self._pending = self._pending, None
                _raise(pending)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._depth:
            self._pending = number
        else:
            _raise(number)


def _raise(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
