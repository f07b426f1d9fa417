"""How long a wait must last before it is called a stall."""

import math
import re

from unstuck.diagnose.blocked import is_asleep
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot

SUSPICION = 1.0
"""Seconds of waiting from which on evidence is asked for."""
FLOOR = 3.0
START_UP = 20.0
LONG_WORK = 30.0
"""For work that often takes long on one rank while the others wait: see `does_long_work`."""
ENOUGH_GAPS = 10
_LONG_FILES = re.compile(
    r"torch/(serialization|_dynamo|_inductor|distributed/checkpoint)|safetensors|triton"
)


def limit_of(state: RankState, learned: float) -> float:
    """Return the patience for one rank: a deadline of its section wins over what was learned."""
    if state.section_left is not None:
        return SUSPICION if state.section_left <= 0 else math.inf
    return max(learned, LONG_WORK) if does_long_work(state) else learned


def does_long_work(state: RankState) -> bool:
    """Tell whether the rank is inside a library that saves or compiles: healthy jobs are, for long.

    Names of the script's own functions say nothing: a loop in `tokenize` may be one for ever.
    """
    return not is_asleep(state) and any(_LONG_FILES.search(line.file) for line in state.stack)


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
