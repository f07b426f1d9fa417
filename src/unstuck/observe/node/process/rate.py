"""How fast a counter of the kernel grows, over the last seconds."""

from collections import deque

WINDOW = 4.0


class Rate:
    """Seconds of something per second, as a share from 0 to 1.

    Example:
        >>> rate = Rate()
        >>> rate.share(10.0, 0.5), rate.share(12.0, 1.5)
        (0.0, 0.5)
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def share(self, now: float, total: float) -> float:
        """Take in the counter as it is now; return its growth over the last seconds."""
        self._seen.append((now, total))
        while len(self._seen) > 2 and now - self._seen[1][0] >= WINDOW:
            self._seen.popleft()
        then, before = self._seen[0]
        if now <= then:
            return 0.0
        return round(min(1.0, max(0.0, (total - before) / (now - then))), 3)
