"""The clock that agents, hub and launcher go by; tests pass one that they can turn.

Asynchronous code sleeps on its event loop, so a test turns that loop's clock as well.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """The part of the module `time` that is used here."""

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        ...

    def time(self) -> float:
        """Return the Unix time."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Do nothing for so many seconds."""
        ...


SYSTEM: Clock = time
"""The clock of the machine."""
