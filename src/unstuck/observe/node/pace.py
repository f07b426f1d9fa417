"""How long a rank usually goes between two signs of progress, and where it is meanwhile.

A gap belongs to the places where the rank was seen in it: its own line of code, its function,
its section. Places that the job visits all the time make up its ordinary pace. A place that it
visits rarely (a checkpoint, an evaluation every N steps) has its own: a long gap there says
nothing about the others. Time spent waiting for other ranks is not part of a rank's own pace.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable
from statistics import median

from unstuck.model.rank import LongPlace, Pace

_WINDOW = 512
_WINDOW_OF_PLACE = 128
_MOST_PLACES = 64
_MOST_TOLD = 8
_WARM_UP = 5
_ENOUGH = 10
_RARE = 4
"""A place is rare when another one is visited more than this many times as often."""
_SHARE = 0.25
"""A gap belongs to every place that the rank was at in this share of the looks."""
LONG = 1.0


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
        self._first = 0.0
        self._own: dict[str, deque[float]] = {}
        self._visits: Counter[str] = Counter()
        self._ordinary: deque[float] = deque(maxlen=_WINDOW)
        self._waits: deque[float] = deque(maxlen=_WINDOW)
        self._steps: deque[float] = deque(maxlen=64)
        self._step: tuple[int, float] = (0, now)
        self._seen: Counter[str] = Counter()
        self._looks = 0
        self._waiting = 0
        self._just_moved = False
        self._lines: set[Hashable] = set()
        self._pace: Pace | None = Pace()

    def look(
        self,
        frontier: Hashable,
        done: int,
        now: float,
        *,
        waiting: bool = False,
        places: Iterable[str] = (),
        line: Hashable = None,
    ) -> bool:
        """Note the frontier and how many operations are done; return True when it moved.

        `waiting` says that an operation is in flight, `places` and `line` where the rank is.
        """
        moved = frontier != self._frontier
        if moved:
            self._close_gap(now - self._changed)
            self._frontier, self._done, self._changed = frontier, done, now
        elif self._just_moved:
            # What is seen right after a move may still be the place before it.
            self._forget_looks()
        self._just_moved = moved
        self._looks += 1
        self._waiting += waiting
        self._seen.update(places)
        if line is not None:
            self._lines.add(line)
        return moved

    def note_step(self, step: int, now: float) -> None:
        """Note the number of the step, to learn how long one takes."""
        if step == self._step[0]:
            return
        if 0 < self._step[0] < step:
            self._steps.append((now - self._step[1]) / (step - self._step[0]))
            self._pace = None
        self._step = (step, now)

    def stalled_for(self, now: float) -> float:
        """Seconds since the frontier last moved."""
        return max(0.0, now - self._changed)

    @property
    def places(self) -> tuple[str, ...]:
        """Where the rank has been since it last moved."""
        return tuple(place for place, seen in self._seen.items() if seen >= _SHARE * self._looks)

    @property
    def lines(self) -> int:
        """At how many different lines of code it has been seen since it last moved."""
        return len(self._lines)

    def pace(self) -> Pace:
        """Summarise the gaps seen so far."""
        if self._pace is None:
            self._pace = self._summary()
        return self._pace

    def _summary(self) -> Pace:
        everything = (*self._ordinary, *self._waits)
        if not everything:
            return Pace(first=round(self._first, 3))
        return Pace(
            gaps=self._done - _WARM_UP,
            typical=round(median(everything), 3),
            longest=round(self._longest_ordinary(), 3),
            waited=round(max(self._waits, default=0.0), 3),
            step=round(median(self._steps), 3) if self._steps else 0.0,
            first=round(self._first, 3),
            places=self._long_places(),
        )

    def _close_gap(self, gap: float) -> None:
        waited = self._waiting * 2 > self._looks
        if self._done < _WARM_UP:
            self._first = self._first if waited else max(self._first, gap)
        elif waited:
            self._waits.append(gap)
        else:
            self._ordinary.append(gap)
            for place in self.places:
                self._credit(place, gap)
        self._pace = None
        self._forget_looks()

    def _forget_looks(self) -> None:
        self._seen.clear()
        self._lines.clear()
        self._looks = self._waiting = 0

    def _credit(self, place: str, gap: float) -> None:
        gaps = self._own.pop(place, None) or deque(maxlen=_WINDOW_OF_PLACE)
        gaps.append(gap)
        self._own[place] = gaps  # the place visited last is the last
        self._visits[place] += 1
        if len(self._own) > _MOST_PLACES:
            oldest = next(iter(self._own))
            del self._own[oldest], self._visits[oldest]

    def _longest_ordinary(self) -> float:
        """The longest gap that may happen anywhere.

        What happened at one line only is that line's own, so the second longest of the lines
        counts; a line's usual gap counts always.
        """
        if len(self._ordinary) < _ENOUGH:
            return max(*self._ordinary, *self._waits, 0.0, 0.0)
        lines = {place: gaps for place, gaps in self._own.items() if _is_line(place)}
        if not lines:
            return max(self._ordinary)
        most = max(self._visits[place] for place in lines)
        usual = [gaps for place, gaps in lines.items() if self._visits[place] * _RARE >= most]
        longest = sorted((max(gaps) for gaps in usual), reverse=True)
        return max(*(median(gaps) for gaps in usual), *longest[1:2], 0.0)

    def _long_places(self) -> tuple[LongPlace, ...]:
        """Lines with a long gap; functions and sections only if they are long by nature."""
        found = [
            LongPlace(place, self._visits[place], round(max(gaps), 3))
            for place, gaps in self._own.items()
            if (max(gaps) if _is_line(place) else median(gaps)) >= LONG
        ]
        return tuple(sorted(found, key=lambda one: (-one.longest, one.place))[:_MOST_TOLD])


def places_of(section: str, frames: Iterable[Iterable[object]]) -> tuple[str, ...]:
    """Name where a rank is: its own line, its function, its section.

    Example:
        >>> places_of("save", [["a.py", 3, "f", False], ["train.py", 8, "main", True]])
        ('train.py:8', 'train.py main()', 'section save')
    """
    found: list[str] = []
    for file, line, function, user in frames:
        if user:
            found += [f"{file}:{line}", f"{file} {function}()"]
            break
    return (*found, f"section {section}") if section else tuple(found)


def _is_line(place: str) -> bool:
    return not place.endswith("()") and not place.startswith("section ")
