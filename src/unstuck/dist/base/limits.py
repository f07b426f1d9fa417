"""How long operations may take: `timeout=` for one call, `with deadline(...)` for many."""

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
"""How many open deadlines and unfinished operations this process has. Every call checks it first:
at zero, a call without `timeout=` goes straight to torch."""

_counting = threading.Lock()
NEVER = math.inf
_end: ContextVar[float] = ContextVar("unstuck_deadline_end", default=NEVER)
_copies: ContextVar[bool] = ContextVar("unstuck_deadline_copy", default=False)


def seconds_of(limit: Limit, argument: str = "timeout") -> float:
    """Return a limit in seconds; raise an error that names the argument if it is not valid.

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
    """Change how many things every call has to check for; safe to call from several threads."""
    with _counting:
        ENGAGED[0] += more


def end() -> float:
    """Return the `time.monotonic()` at which the innermost deadline of this context passes."""
    return _end.get()


def copies() -> bool:
    """Tell whether the deadline of this context asks for private copies."""
    return _copies.get()


class deadline:  # noqa: N801 - reads as a word of the script: `with unstuck.deadline(seconds=60):`
    """Limit every `unstuck.dist` operation in the block to the time that remains.

    When deadlines are nested, the earliest counts. A deadline belongs to the thread or asyncio
    task that opened it. `copy=True` makes every operation inside work on private copies, like
    the argument of that name.

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
            raise RuntimeError("this deadline is not open: it was never entered, or already exited")
        ending, copying = self._open.pop()
        engage(-1)
        _end.reset(ending)
        _copies.reset(copying)

    def remaining(self) -> float:
        """Return the remaining seconds; 0 when the deadline has passed."""
        return max(0.0, _end.get() - time.monotonic()) if self._open else self.seconds
