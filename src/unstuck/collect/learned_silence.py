"""How long a silence must be before a peer is suspected: learned from its usual intervals.

Signs of life arrive at intervals that depend on the load of both machines and on the network. The
limit is the silence that a living peer exceeds in fewer than one of a million intervals, if its
long intervals stay distributed as they were: those beyond the 90th percentile, modelled as an
exponential tail. With a sign every 0.3 s that is one false suspicion in three and a half days per
peer. The limit has a floor, as a quiet hour says nothing about the first pause of a busy one.
"""

import math
from collections import deque

ERROR_RATE = 1e-6
"""Intervals of a living peer that are longer than its limit."""
_WINDOW = 400
_ENOUGH = 20
_TAIL = 0.1
_RECOMPUTE = 20


class Arrivals:
    """The intervals between the signs of life of one peer.

    Example:
        >>> arrivals = Arrivals(floor=1.0, most=10.0)
        >>> for n in range(100):
        ...     arrivals.note(0.3)
        >>> arrivals.limit
        1.0
    """

    def __init__(self, floor: float, most: float) -> None:
        self._floor = floor
        self._most = most
        self._gaps: deque[float] = deque(maxlen=_WINDOW)
        self._fresh = 0
        self.limit = most / 2
        """Seconds of silence after which the peer is suspected; generous while it is new."""

    def note(self, gap: float) -> None:
        """Add one interval, also one beyond the limit, but not one that was an outage."""
        if gap >= self._most:
            return
        self._gaps.append(gap)
        self._fresh += 1
        if len(self._gaps) >= _ENOUGH and (self._fresh >= _RECOMPUTE or gap > self.limit):
            self._fresh = 0
            self.limit = self._learn()

    def _learn(self) -> float:
        ordered = sorted(self._gaps)
        beyond = max(2, math.ceil(_TAIL * len(ordered)))
        start = ordered[-beyond - 1]
        scale = sum(gap - start for gap in ordered[-beyond:]) / beyond
        limit = start + scale * math.log(_TAIL / ERROR_RATE)
        return min(self._most, max(self._floor, limit, 1.5 * ordered[-1]))
