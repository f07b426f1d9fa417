"""How long the operations may take: `timeout=` of one call, `with deadline(...)` around many."""

import math
import threading
import time
from contextvars import ContextVar, Token
from datetime import timedelta
from types import TracebackType
from typing import Self

__all__ = ["Limit", "deadline"]

Limit = float | int | timedelta

ENGAGED = [0]
"""How many deadlines are open and operations unfinished in this process. Every call looks at it
first: at zero, a call without `timeout=` goes straight to torch."""

_counting = threading.Lock()
NEVER = math.inf
_end: ContextVar[float] = ContextVar("unstuck_deadline_end", default=NEVER)
_copies: ContextVar[bool] = ContextVar("unstuck_deadline_copy", default=False)


def seconds_of(limit: Limit, argument: str = "timeout") -> float:
    """Return a limit in seconds; raise an error that names the argument when it is none.

    Example:
        >>> seconds_of(timedelta(minutes=1))
        60.0
    """
    if isinstance(limit, timedelta):
        limit = limit.total_seconds()
    if isinstance(limit, bool) or not isinstance(limit, float | int):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(limit).__name__
        raise TypeError(f"{argument} must be a number of seconds or a timedelta, not {kind}")
    if not math.isfinite(limit) or limit <= 0:
        raise ValueError(f"{argument} must be a finite number of seconds above 0, not {limit}")
    return float(limit)


def engage(more: int) -> None:
    """Count what has to be looked at in every call; threads may do so at once."""
    with _counting:
        ENGAGED[0] += more


def end() -> float:
    """Return when the innermost deadline of this context ends, as `time.monotonic()` counts."""
    return _end.get()


def copies() -> bool:
    """Tell whether the deadline of this context asks for private copies."""
    return _copies.get()


class deadline:  # noqa: N801 - reads as a word of the script: `with unstuck.deadline(seconds=60):`
    """Give every operation of `unstuck.dist` in the block the time that is left of it.

    Nested, the one that ends first counts. It belongs to the thread or asyncio task that opened
    it. `copy=True` lets every operation inside work on private copies, as its own argument does.

    Example:
        >>> import unstuck
        >>> with unstuck.deadline(seconds=60) as limit:
        ...     limit.remaining() <= 60
        True
    """

    __slots__ = ("_open", "copy", "seconds")

    def __init__(self, seconds: Limit, *, copy: bool = False) -> None:
        self.seconds = seconds_of(seconds, "seconds")
        self.copy = copy
        self._open: list[tuple[Token[float], Token[bool]]] = []

    def __enter__(self) -> Self:
        until = min(time.monotonic() + self.seconds, _end.get())
        self._open.append((_end.set(until), _copies.set(self.copy or _copies.get())))
        engage(1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._open:
            raise RuntimeError("this deadline is not open: it was left already, or never entered")
        ending, copying = self._open.pop()
        engage(-1)
        _end.reset(ending)
        _copies.reset(copying)

    def remaining(self) -> float:
        """Return the seconds that are left, 0 when none are."""
        return max(0.0, _end.get() - time.monotonic()) if self._open else self.seconds
