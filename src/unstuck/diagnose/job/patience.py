"""How long a wait must last before it is called a stall.

What a tired engineer expects, and so what holds here:

- In a job that steps ten times a second, a hang is called after three seconds; in one whose
  steps take seven, not before two of them could have passed.
- The first step compiles and warms up: nobody is blamed for 20 s, or three times as long as
  the slowest rank that got through needed.
- A checkpoint or an evaluation every N steps is long each time. Once seen, the same line,
  function or section gets three times its longest so far, on any rank, and nowhere else: a
  job that paused for 10 s at a checkpoint and hangs in its loader is called after 3 s.
- The first time such a phase comes it cannot be known. A rank inside a library that saves or
  compiles, or one that visibly works its way through many lines of the script, is given 30 s; one
  that sleeps, waits, or turns in a loop of a few lines is not.
- A deadline that the user gave to a section wins over all of it, in both directions; what was
  asked for while the job runs (`unstuck ctl set`) wins over that.
"""

import math
import re
from collections.abc import Iterable

from unstuck.diagnose.job.main_thread import is_asleep, waits_on_host
from unstuck.diagnose.thresholds import (
    BUSY_CPU,
    ENOUGH_GAPS,
    FLOOR,
    LONG_WORK,
    MANY_LINES,
    START_UP,
    STEPS,
    SUSPICION,
    TIMES,
)
from unstuck.model.controls import Controls
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot

_LONG_FILES = re.compile(
    r"torch/(serialization|_dynamo|_inductor|distributed/checkpoint)|safetensors|triton"
)
_SAVES = re.compile(r"torch/(serialization|distributed/checkpoint)|safetensors")


_AS_LEARNED = Controls()


def limit_of(
    state: RankState,
    learned: float,
    known: dict[str, float] | None = None,
    controls: Controls = _AS_LEARNED,
    *,
    spare_long_work: bool = True,
) -> float:
    """Return the patience for one rank that others wait for; `known` maps places to seconds.

    `spare_long_work` gives work that often takes long more time: where its signs of life are seen,
    that is not needed.
    """
    for name in reversed(state.sections):
        if name in controls.sections:
            return controls.sections[name]
    if state.section_left is not None:
        return SUSPICION if state.section_left <= 0 else math.inf
    if controls.patience:
        return controls.patience
    here = max((known.get(place, 0.0) for place in state.places), default=0.0) if known else 0.0
    limit = max(learned, TIMES * here)
    return max(limit, LONG_WORK) if spare_long_work and does_long_work(state) else limit


def is_asked(state: RankState, controls: Controls = _AS_LEARNED) -> bool:
    """Tell whether the user said how long to wait for a rank: a patience, or a section's time."""
    by_section = any(name in controls.sections for name in state.sections)
    return bool(controls.patience) or by_section or state.section_left is not None


def limit_of_wait(
    waiting: Iterable[RankState], learned: float, controls: Controls = _AS_LEARNED
) -> float:
    """Return the patience for an operation that all members have begun.

    What the last of them to come has waited at most is how long such operations take; the
    others waited for that one.
    """
    if controls.patience:
        return controls.patience
    return max(learned, TIMES * min((state.pace.waited for state in waiting), default=0.0))


def does_long_work(state: RankState) -> bool:
    """Tell whether the rank saves, compiles, or moves through many lines of code.

    A library that saves may sleep in between, for a storage that is slow or to be tried again.
    Names of the script's own functions say nothing: a loop in `tokenize` may be one for ever.
    """
    if any(_LONG_FILES.search(line.file) for line in state.stack):
        return True
    # A checkpoint that another thread writes, and that the main thread waits for.
    if state.stack and waits_on_host(state.stack[0]) and any(map(_SAVES.search, state.threads)):
        return True
    busy = state.process.cpu >= BUSY_CPU and not is_asleep(state)
    return busy and state.lines >= MANY_LINES


def patience(snapshot: Snapshot) -> float:
    """Learn from the job's own pace how many seconds of waiting are too many, unless told.

    Three times the longest ordinary gap between two signs of progress on any living rank, two
    steps, and never less than 3. While no rank has shown enough gaps to learn from: 20, or
    three times the longest that a rank needed for its first operations.
    """
    if snapshot.controls.patience:
        return snapshot.controls.patience
    return learned_patience(snapshot)


def learned_patience(snapshot: Snapshot) -> float:
    """Return what the patience would be if nobody had asked for another."""
    if not any(state.pace.gaps >= ENOUGH_GAPS for state in snapshot.ranks):
        first = max((state.pace.first for state in snapshot.ranks), default=0.0)
        return max(START_UP, TIMES * first)
    alive = [state.pace for state in snapshot.ranks if state.process.gone_for is None]
    longest = max((pace.longest for pace in alive), default=0.0)
    step = max((pace.step for pace in alive), default=0.0)
    return max(FLOOR, TIMES * longest, STEPS * step)


def long_places(snapshot: Snapshot) -> dict[str, float]:
    """Collect from all ranks how long they have been at most at places that are known as long."""
    known: dict[str, float] = {}
    for state in snapshot.ranks:
        for one in state.pace.places:
            known[one.place] = max(one.longest, known.get(one.place, 0.0))
    return known
