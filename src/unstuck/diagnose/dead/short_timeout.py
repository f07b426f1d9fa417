"""A timeout shorter than the work that the job is known to need."""

import re

from msgspec import Struct

from unstuck.diagnose.dead.deaths import Deaths, timed_out
from unstuck.diagnose.finding import Finding, culprit
from unstuck.diagnose.job.standing import Job, has_ended
from unstuck.diagnose.text import seconds_text
from unstuck.model.doing import NeedsLonger
from unstuck.model.rank import CodeLine, LongPlace, RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Culprit, Evidence, Role

_LIMIT = re.compile(r"(?:waiting|timeout after|Timeout\(ms\)=)\s*(\d+)\s*(?:ms|,|\))")


class _Late(Struct, frozen=True):
    state: RankState
    place: LongPlace


def explain_short_timeout(job: Job, deaths: Deaths) -> Finding | None:
    """Say that ranks timed out waiting for one whose work takes that long every time.

    Its own history must show it: a place where it has spent longer than the timeout before.
    """
    first = next((d for d in deaths.followers if timed_out(d.state)), None)
    limit = _limit(first.state) if first else 0.0
    if first is None or not limit:
        return None
    late = [
        _Late(state, place)
        for state in job.states.values()
        if not (state.failure and timed_out(state)) and (place := _place(state, limit))
    ]
    if not late:
        return None
    blamed = {one.state.rank for one in late}
    worst = max(late, key=lambda one: one.place.longest)
    return Finding(
        cause=Cause.TIMEOUT_TOO_SHORT,
        confidence=Confidence.LIKELY,
        because=f"the others timed out after {seconds_text(limit)}, and the work at "
        f"{_short(worst.place)} has taken {seconds_text(worst.place.longest)} before",
        culprits=tuple(_slow(one, limit, first.age) for one in late),
        victims=tuple(rank for rank in job.states if rank not in blamed),
        seconds=first.age,
        evidence=tuple(
            Evidence(
                f"rank {one.state.rank}: history",
                f"{_short(one.place)}: {one.place.visits} times, "
                f"at most {seconds_text(one.place.longest)}",
                Role.ROOT,
            )
            for one in late
        ),
        alternatives=(
            Alternative(
                Cause.BUSY_ELSEWHERE,
                "run with a longer timeout: if the work then finishes as before, the timeout was "
                "too short",
            ),
        ),
    )


def _slow(late: _Late, limit: float, seconds: float) -> Culprit:
    activity = NeedsLonger(late.place.longest, _short(late.place), limit)
    return culprit(late.state, activity, seconds, _line(late.place))


def _limit(state: RankState) -> float:
    found = _LIMIT.search(state.failure.message) if state.failure else None
    return int(found[1]) / 1000 if found else 0.0


def _place(state: RankState, limit: float) -> LongPlace | None:
    """The place where the rank is known to spend longer than the timeout.

    While it lives it must be there now; one that arrived too late and failed was there just before.
    """
    known = [place for place in state.pace.places if place.longest >= limit]
    if state.failure is None and not has_ended(state):
        known = [place for place in known if place.place in state.places]
    return max(known, key=lambda place: (_line(place) is not None, place.longest), default=None)


def _line(place: LongPlace) -> CodeLine | None:
    file, _, number = place.place.rpartition(":")
    return CodeLine(file, int(number), "", user=True) if file and number.isdigit() else None


def _short(place: LongPlace) -> str:
    return place.place.rsplit("/", 1)[-1]
