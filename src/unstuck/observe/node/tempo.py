"""Where the time of a moving rank goes: into its own work, or into waiting for the others.

The probe looks ten times a second, at uneven moments: is an operation in flight, how many steps
are done, which line of the script runs? The share of looks without an operation in flight is the
share of a step that the rank needs for itself. The last rank to come finds the others waiting, so
its operations complete at once: that is what gives a straggler away, also where DDP overlaps them
with its backward pass. Times are of the rank's own host, so no two clocks are ever compared.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any, NamedTuple

from unstuck.model.rank import CodeLine, Tempo
from unstuck.observe.node import source_text

WINDOW_SECONDS = 10.0
WINDOW_STEPS = 20
_ENOUGH_SECONDS = 4.0
_ENOUGH_STEPS = 12
_ENOUGH_LOOKS = 20
_LONG_STEP = 1.8
"""A step of this many typical ones held something else too: a checkpoint, an evaluation."""
_BLOCKS = 120
_WARM_UP = 3
_EVERY = 0.9
_CHANGED = 1.3

Spot = tuple[str, int, str]


class Stretch(NamedTuple):
    """One step, or the few between two looks. The pace comes first: they are sorted by it."""

    pace: float
    """Seconds a step; without steps, seconds without a new collective."""
    weight: int
    steps: int
    seconds: float
    looks: int
    waits: int
    ended: float
    delay: float | None
    """Seconds in which the main thread was runnable and had no core; None where not counted."""
    disk: int
    """Looks that found the main thread waiting for a disk."""
    spots: tuple[Spot, ...]


class _Usual(NamedTuple):
    step: float
    own: float
    spots: dict[Spot, float]
    """Seconds of a step in each line of the script."""


class TempoMeter:
    """Takes in the probe's reports and says where the time of the last steps went.

    `delay` gives the seconds in which the rank's main thread was kept waiting for a core so far.
    They are counted step by step, so that a step that is left out leaves no delay behind.
    `disk` tells whether it waits for a disk at this moment.
    """

    def __init__(
        self,
        delay: Callable[[], float | None] = lambda: None,
        disk: Callable[[], bool] = lambda: False,
    ) -> None:
        self._delay_so_far = delay
        self._waits_for_disk = disk
        self._last: dict[str, Any] = {}
        self._p2p = 0
        self._found_at = 0.0
        self._begin("")

    def _begin(self, unit: str) -> None:
        """Start over: what was counted before is not comparable."""
        self._unit = unit
        self._mark = (0, 0.0)
        self._delay: float | None = None
        self._looks = 0
        self._waits = 0
        self._disk = 0
        self._spots: list[Spot] = []
        self._recent: deque[Stretch] = deque()
        self._steps, self._seconds = 0, 0.0
        self._first: list[Stretch] | None = []
        self._leaving: list[Stretch] = []
        self._left = (0, 0.0)
        self._found: Tempo | None = None
        self._blocks: deque[_Usual] = deque(maxlen=_BLOCKS)
        self._changed_at: float | None = None

    def look(self, report: dict[str, Any]) -> None:
        """Take in a report; one that was seen already, or shows no operations, is passed over."""
        if report is self._last or not report.get("status") or "at" not in report:
            return
        self._last = report
        now, step, stepped = report["at"]
        unit = "step" if step else "collective"
        recounted = bool(step) and step < self._mark[0]
        # Sends and receives show no common step: stages of a pipeline differ and wait in turn.
        if unit != self._unit or recounted or report["p2p_issued"] != self._p2p:
            self._p2p = report["p2p_issued"]
            self._begin(unit)
        count = step or sum(report["groups"].values())
        self._count(count, stepped if step else now)
        self._looks += 1
        self._disk += self._waits_for_disk()
        if any(enqueued > completed for enqueued, completed in report["status"].values()):
            self._waits += 1
        elif report["frames"] and report["frames"][-1][3]:
            file, line, function, _ = report["frames"][-1]
            self._spots.append((file, line, function))

    def _count(self, count: int, when: float) -> None:
        steps, seconds = count - self._mark[0], when - self._mark[1]
        if steps <= 0:
            return
        before, self._delay = self._delay, self._delay_so_far()
        if self._mark[1] and seconds > 0:
            delay = None if before is None or self._delay is None else self._delay - before
            seen = (self._looks, self._waits, when, delay, self._disk, tuple(self._spots))
            # Collectives come in bursts, so their number says nothing about the time they take.
            weight = steps if self._unit == "step" else 1
            self._keep(Stretch(seconds / weight, weight, steps, seconds, *seen))
        self._mark = (count, when)
        self._looks = self._waits = self._disk = 0
        self._spots = []

    def _keep(self, stretch: Stretch) -> None:
        self._recent.append(stretch)
        if self._first is not None:
            self._learn_first(self._first, stretch)
        self._steps += stretch.steps
        self._seconds += stretch.seconds
        while len(self._recent) > 1:
            oldest = self._recent[0]
            if self._steps - oldest.steps < WINDOW_STEPS:
                return
            if self._seconds - oldest.seconds < WINDOW_SECONDS:
                return
            self._recent.popleft()
            self._steps -= oldest.steps
            self._seconds -= oldest.seconds
            self._leave(oldest)

    def _learn_first(self, first: list[Stretch], stretch: Stretch) -> None:
        """The first steps count as history too: a rank may become slow seconds after the start."""
        first.append(stretch)
        if (
            self._mark[0] >= _WARM_UP + _ENOUGH_STEPS
            and sum(s.looks for s in first) >= _ENOUGH_LOOKS
        ):
            self._remember(first)
            self._first = None

    def _leave(self, stretch: Stretch) -> None:
        """What leaves the window makes up the longer past, block by block."""
        self._leaving.append(stretch)
        self._left = (self._left[0] + stretch.steps, self._left[1] + stretch.seconds)
        if self._left[0] < WINDOW_STEPS / 2 or self._left[1] < WINDOW_SECONDS / 2:
            return
        self._remember(self._leaving)
        self._leaving, self._left = [], (0, 0.0)

    def _remember(self, stretches: list[Stretch]) -> None:
        kept = _typical(stretches)
        steps, seconds, looks, waits = _totals(kept)
        if looks:
            step = seconds / steps
            spots = {spot: step * times / looks for spot, times in _spots(kept).items()}
            self._blocks.append(_Usual(step, step * (1 - waits / looks), spots))

    def tempo(self, now: float) -> Tempo:
        """Summarise the last steps; nothing while they are too few to say."""
        if self._found is None or now - self._found_at >= _EVERY:
            self._found, self._found_at = self._summarise(now), now
        return self._found

    def _summarise(self, now: float) -> Tempo:
        kept = _typical(self._recent)
        steps, seconds, looks, waits = _totals(kept)
        if steps < _ENOUGH_STEPS or seconds < _ENOUGH_SECONDS or looks < _ENOUGH_LOOKS:
            return Tempo()
        step = seconds / steps
        own = step * (1 - waits / looks)
        usual = median(block.own for block in self._blocks) if self._blocks else 0.0
        changed_for = self._changed_for(step, own, usual, now)
        place, share = self._place(kept, step / looks)
        delays = [one.delay for one in kept if one.delay is not None]
        return Tempo(
            steps=steps,
            step=round(step, 4),
            own=round(own, 4),
            error=round(_error(kept, own, seconds / looks), 4),
            usual_own=round(usual, 4),
            delayed=round(sum(delays) / steps, 4) if len(delays) == len(kept) else None,
            disk=round(step * sum(one.disk for one in kept) / looks, 4),
            unit=self._unit,
            changed_for=changed_for,
            place=place,
            place_share=share,
        )

    def _place(self, kept: list[Stretch], look: float) -> tuple[CodeLine | None, float]:
        """Return the line that takes most of the rank's own time; of a slower rank, most more.

        `look` is the part of a step that one look stands for.
        """
        spots = _spots(kept)
        if not spots:
            return None, 0.0
        became_slow = self._changed_at is not None
        usual = {spot: self._usually_in(spot) if became_slow else 0.0 for spot in spots}
        spot = max(spots, key=lambda one: spots[one] * look - usual[one])
        file, line, function = spot
        text = source_text.line(file, line)
        share = round(spots[spot] / spots.total(), 2)
        return CodeLine(file, line, function, text, user=True), share

    def _usually_in(self, spot: Spot) -> float:
        return median(block.spots.get(spot, 0.0) for block in self._blocks)

    def _changed_for(self, step: float, own: float, usual: float, now: float) -> float:
        if not usual or own < _CHANGED * usual:
            self._changed_at = None
            return 0.0
        if self._changed_at is None:
            before = median(block.step for block in self._blocks)
            self._changed_at = _change(self._recent, (before + step) / 2)
        return round(max(0.0, now - self._changed_at), 1)


def _typical(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Leave out steps that took far longer than most: they held something else too."""
    found = sorted(stretches)
    half = sum([one.weight for one in found]) / 2
    for one in found:
        half -= one.weight
        if half <= 0:
            most = one.pace * _LONG_STEP
            return [other for other in found if other.pace <= most]
    return found


def _totals(stretches: list[Stretch]) -> tuple[int, float, int, int]:
    steps, seconds, looks, waits = 0, 0.0, 0, 0
    for one in stretches:
        steps += one.steps
        seconds += one.seconds
        looks += one.looks
        waits += one.waits
    return steps, seconds, looks, waits


def _error(stretches: list[Stretch], own: float, look: float) -> float:
    """Return the standard error of `own`; `look` is the time that one look stands for."""
    off = [(one.looks - one.waits) * look - own * one.steps for one in stretches]
    return math.sqrt(sum(x * x for x in off)) / sum(one.steps for one in stretches)


def _change(recent: Iterable[Stretch], level: float) -> float:
    """Find when steps began to take longer than `level`, back from now, over short exceptions."""
    found, exceptions = 0.0, 0
    for one in reversed(list(recent)):
        if one.seconds / one.steps > level or not found:
            found, exceptions = one.ended - one.seconds, 0
        else:
            exceptions += 1
            if exceptions == 3:
                break
    return found


def _spots(stretches: Iterable[Stretch]) -> Counter[Spot]:
    return Counter(spot for one in stretches for spot in one.spots)
