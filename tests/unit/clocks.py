"""A clock that tests turn, and an event loop that goes by it: no test sleeps in real time."""

import asyncio
import selectors
import time
from typing import Any

from unstuck.clock import SYSTEM, Clock

_IDLE = 0.004
"""Real seconds in which nothing may arrive before the loop skips to its next timer: what one
socket of this process sends another is there by then."""


class FakeClock:
    """Real time plus what was skipped, so that pages of real ranks still fit."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped

    def time(self) -> float:
        return time.time() + self.skipped

    def sleep(self, seconds: float, /) -> None:
        """Skip these seconds."""
        self.skipped += seconds


class _SkippingSelector(selectors.EpollSelector):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= _IDLE:
            return super().select(timeout)
        found = super().select(_IDLE)
        if not found:
            self._clock.sleep(timeout - _IDLE)
        return found


class SkippingLoop(asyncio.SelectorEventLoop):
    """Skips the time in which it would only wait for a timer."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_SkippingSelector(clock))
        self.clock = clock

    def time(self) -> float:
        return self.clock.monotonic()


def current() -> Clock:
    """Return the clock of the running loop."""
    loop = asyncio.get_running_loop()
    return loop.clock if isinstance(loop, SkippingLoop) else SYSTEM


def skip(seconds: float) -> None:
    """Let the running loop be late by so many seconds, as if its process had been stopped."""
    current().sleep(seconds)
