"""What asyncio reports when a process runs out of descriptors: once a minute, not a traceback each.

It tries to accept a waiting connection again every second, and logs the whole failure each time.
"""

import logging

from unstuck.clock import SYSTEM, Clock
from unstuck.console import say

EVERY = 60.0


class Rarely(logging.Handler):
    """Says each kind of message in one line, and once a minute."""

    def __init__(self, who: str, clock: Clock = SYSTEM) -> None:
        super().__init__()
        self._who = who
        self._clock = clock
        self._said: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, unless it was said within the last minute."""
        text = record.getMessage().partition("\n")[0]
        error = record.exc_info[1] if record.exc_info else None
        line = f"the {self._who}: {text}" + (f" ({error})" if error else "")
        now = self._clock.monotonic()
        if now - self._said.get(line, -EVERY) >= EVERY:
            self._said = {one: at for one, at in self._said.items() if now - at < EVERY}
            self._said[line] = now
            say(line)


def report_rarely(who: str) -> None:
    """Let asyncio report through `Rarely` in this process."""
    logger = logging.getLogger("asyncio")
    logger.handlers = [Rarely(who)]
    logger.propagate = False
