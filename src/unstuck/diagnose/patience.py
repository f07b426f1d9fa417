"""How long a wait must last before it is called a stall."""

import math

from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot

SUSPICION = 1.0
"""Seconds of waiting from which on evidence is asked for."""
FLOOR = 3.0
START_UP = 20.0
ENOUGH_GAPS = 10


def limit_of(state: RankState, learned: float) -> float:
    """Return the patience for one rank: a deadline of its section wins over what was learned."""
    if state.section_left is None:
        return learned
    return SUSPICION if state.section_left <= 0 else math.inf


def patience(snapshot: Snapshot) -> float:
    """Learn from the job's own pace how many seconds of waiting are too many.

    Three times the longest gap between two signs of progress on any living rank, and
    never less than 3. While no rank has shown enough gaps to learn from: 20.
    """
    paces = [state.pace for state in snapshot.ranks]
    if not any(pace.gaps >= ENOUGH_GAPS for pace in paces):
        return START_UP
    alive = [state.pace.longest for state in snapshot.ranks if state.process.gone_for is None]
    return max(FLOOR, 3 * max(alive, default=0.0))
