"""How long a rank usually goes between two signs of progress."""

from collections import deque
from collections.abc import Hashable
from statistics import median

from unstuck.model.rank import Pace

_WINDOW = 512
_WARM_UP = 5


class Progress:
    """Watches a frontier (anything comparable) and remembers the gaps between its changes.

    The first few operations are start-up (compilation, first batch, buffers) and say nothing
    about those that follow.

    Example:
        >>> progress = Progress(0.0)
        >>> progress.look("a", 1, 1.0), progress.stalled_for(3.0)
        (True, 2.0)
    """

    def __init__(self, now: float) -> None:
        self._frontier: Hashable = None
        self._changed = now
        self._done = 0
        self._gaps: deque[float] = deque(maxlen=_WINDOW)

    def look(self, frontier: Hashable, done: int, now: float) -> bool:
        """Note the frontier and how many operations are done; return True when it moved."""
        if frontier == self._frontier:
            return False
        if self._done >= _WARM_UP:
            self._gaps.append(now - self._changed)
        self._frontier = frontier
        self._done = done
        self._changed = now
        return True

    def stalled_for(self, now: float) -> float:
        """Seconds since the frontier last moved."""
        return max(0.0, now - self._changed)

    def pace(self) -> Pace:
        """Summarise the gaps seen so far."""
        if not self._gaps:
            return Pace()
        return Pace(
            gaps=self._done - _WARM_UP,
            typical=round(median(self._gaps), 3),
            longest=round(max(self._gaps), 3),
        )
