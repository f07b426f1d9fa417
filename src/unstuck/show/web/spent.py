"""Where the time of a job goes, from what the page has seen of it."""

from collections import deque

from msgspec import Struct

from unstuck.explain.view.doing_now import State
from unstuck.explain.view.job_view import JobView

_WINDOW = 10.0
"""Seconds over which steps are counted."""
_LONGEST = 5.0
"""A gap between two looks that is longer was not watched."""
MOST_POINTS = 900


class Point(Struct, frozen=True, array_like=True):
    """One moment of the time line."""

    at: float
    step: int
    speed: float | None
    """Steps a second over the last seconds; None for the first moment."""
    waiting: float
    """Share of a step that the typical rank waits, from 0 to 1."""
    stalled: bool


class Spent:
    """Adds up what the time went to."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.points: deque[Point] = deque(maxlen=MOST_POINTS)
        self._attempt = -1

    def note(self, view: JobView) -> None:
        """Take in one look at the job.

        Example:
            spent.note(view_job(snapshot, verdict)); spent.seconds["stalled"]
        """
        if view.attempt != self._attempt:
            self.points.clear()
            self._attempt = view.attempt
        last = self.points[-1] if self.points else None
        if last is not None and view.taken_at <= last.at:
            return
        if last is not None and view.taken_at - last.at <= _LONGEST:
            self._add(view, view.taken_at - last.at)
        stalled = view.verdict is not None and not view.verdict.slowdown
        self.points.append(
            Point(view.taken_at, view.step, self._speed(view), view.time.waiting_share, stalled)
        )

    def _add(self, view: JobView, elapsed: float) -> None:
        for what, share in _shares(view).items():
            self.seconds[what] = self.seconds.get(what, 0.0) + share * elapsed

    def _speed(self, view: JobView) -> float | None:
        recent = [one for one in self.points if view.taken_at - one.at <= _WINDOW]
        if not recent:
            return None
        return max(0, view.step - recent[0].step) / (view.taken_at - recent[0].at)


def _shares(view: JobView) -> dict[str, float]:
    """Say what the time is spent on now, in shares."""
    if view.verdict is not None and not view.verdict.slowdown:
        return {"stalled": 1.0}
    total = sum(view.counts.values()) or 1
    if view.counts.get(State.STARTING, 0) * 2 > total:
        return {"starting": 1.0}
    if view.counts.get(State.SECTION, 0) * 2 > total:
        return {"in sections": 1.0}
    if not view.time.step:
        return {"not measured": 1.0}
    waiting = view.time.waiting_share
    lost = 1 - 1 / view.verdict.slowdown if view.verdict else 0.0
    shares = {"work": 1 - max(waiting, lost), "waiting for others": max(0.0, waiting - lost)}
    return shares | ({"waiting for a straggler": lost} if lost else {})
