"""Ranks that died, failed or left: which of them is the root, which only followed."""

import signal
from dataclasses import dataclass

from unstuck.diagnose.heads import GroupKey, group_key
from unstuck.diagnose.standing import Job, has_ended
from unstuck.model.rank import GroupProgress, RankState

SIMULTANEOUS = 0.1
"""Two deaths this close together cannot be told to be one after the other."""
SEEN_WITHIN = 0.5
"""A busy machine may see a death this much later than its neighbours felt it."""

_FOLLOWS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection timed out",
    "Application timeout caused pair closure",
    "Broken pipe",
    "Socket closed",
    "Timed out waiting",
    "Timed out after",
    "Operation timed out",
    "wait timeout after",
    "Watchdog caught collective operation timeout",
    "to pass monitoredBarrier",
    "successfully reached monitoredBarrier",
    "connectFullMesh failed",
    "remote process has exited",
    "NCCL communicator was aborted",
)


@dataclass(frozen=True, slots=True)
class Death:
    """A rank that failed or ended other than by its own success; `age` 0 is now."""

    state: RankState
    age: float

    @property
    def signal(self) -> int:
        """The signal that ended the process, 0 if none did or it is not known."""
        code = self.state.process.exit_code
        if code is None:
            return 0
        if code < 0:
            return -code
        return code - 128 if 128 < code < 128 + signal.NSIG else 0


@dataclass(frozen=True, slots=True)
class Deaths:
    """All deaths, the earliest first, sorted into roots, followers and those who left in order."""

    roots: tuple[Death, ...]
    followers: tuple[Death, ...]
    leavers: tuple[Death, ...]
    """Ranks that ended successfully although others still needed them."""
    sufferers: tuple[int, ...] = ()

    @property
    def oldest(self) -> float:
        """Return how long ago the first of them was."""
        ages = [death.age for death in (*self.roots, *self.followers, *self.leavers)]
        return max(ages, default=0.0)


def find_deaths(job: Job) -> Deaths:
    """Sort out who died first and who only followed, and who left while still needed."""
    ended: list[Death] = []
    left: list[Death] = []
    for state in job.states.values():
        if has_ended(state) or state.failure or state.phase in ("exit", "exception"):
            (left if left_in_order(state) else ended).append(Death(state, _age(state)))
    ended.sort(key=lambda death: (-death.age, death.state.rank))
    vanished = [death for death in ended if _vanished(death.state)]
    needed, sufferers = _needed(job, [*left, *vanished])
    sure = [d for d in ended if not _vanished(d.state) or d.state.rank in needed]
    leavers = [death for death in left if death.state.rank in needed]
    first = max((death.age for death in sure), default=0.0)
    roots: list[Death] = []
    followers: list[Death] = []
    for death in sure:
        follows = _follows(death, first) or _follows_leaver(death, leavers, sufferers)
        (followers if follows else roots).append(death)
    leavers.sort(key=lambda death: (-death.age, death.state.rank))
    return Deaths(tuple(roots), tuple(followers), tuple(leavers), tuple(sorted(sufferers)))


def left_in_order(state: RankState) -> bool:
    """Tell whether a rank reached its end without any error that can be seen."""
    if state.failure is not None:
        return False
    code = state.process.exit_code
    return code == 0 or (code is None and state.phase == "exit")


def tells_of_a_peer(state: RankState) -> bool:
    """Tell whether a rank's exception speaks of another rank's end or delay."""
    failure = state.failure
    return failure is not None and any(words in failure.message for words in _FOLLOWS)


def timed_out(state: RankState) -> bool:
    """Tell whether a rank failed because its own wait came to its time limit."""
    words = ("timed out", "wait timeout", "timeout")
    message = state.failure.message.lower() if state.failure else ""
    return any(word in message for word in words)


def _age(state: RankState) -> float:
    known = [state.process.gone_for, state.failure.age if state.failure else None]
    ages = [age for age in known if age is not None]
    return max(ages) if ages else state.stalled_for


def _vanished(state: RankState) -> bool:
    """Tell whether a process is gone and nothing says how."""
    return state.failure is None and state.process.exit_code is None


def _follows(death: Death, first: float) -> bool:
    if death.state.failure is not None:
        return tells_of_a_peer(death.state)
    if death.signal == signal.SIGTERM:
        return True
    after = death.age < first - SIMULTANEOUS
    return after and death.signal in (signal.SIGKILL, signal.SIGABRT)


def _follows_leaver(death: Death, leavers: list[Death], sufferers: set[int]) -> bool:
    """A rank that ended without an exception of its own, after one that it needed had left."""
    if death.state.failure is not None or death.state.rank not in sufferers:
        return False
    return any(leaver.age > death.age for leaver in leavers)


def _needed(job: Job, gone: list[Death]) -> tuple[set[int], set[int]]:
    """Find which of these ranks others still needed, and those others.

    Somebody suffers if it issued more collectives in a shared group than the one that is gone,
    and has been stuck in them for a while or has failed since.
    """
    away = {death.state.rank for death in gone}
    since = max((death.age for death in gone), default=0.0)
    fewest: dict[GroupKey, int] = {}
    for progress in (one for death in gone for one in death.state.groups):
        key = group_key(progress)
        fewest[key] = min(progress.enqueued, fewest.get(key, progress.enqueued))
    most: dict[GroupKey, int] = {}
    sufferers: set[int] = set()
    if not fewest:
        return set(), set()
    for state in job.states.values():
        if state.rank in away or not _suffers(state, since):
            continue
        for progress in state.groups:
            key = group_key(progress)
            if progress.enqueued > fewest.get(key, progress.enqueued) and _stuck(state, progress):
                sufferers.add(state.rank)
                most[key] = max(progress.enqueued, most.get(key, 0))
    return {death.state.rank for death in gone if _was_needed(death.state, most)}, sufferers


def _was_needed(state: RankState, most: dict[GroupKey, int]) -> bool:
    return any(one.enqueued < most.get(group_key(one), 0) for one in state.groups)


def _stuck(state: RankState, progress: GroupProgress) -> bool:
    return _hurt(state) or progress.enqueued > progress.completed


def _suffers(state: RankState, since: float) -> bool:
    if _hurt(state):
        return _age(state) < since + SEEN_WITHIN
    return state.in_flight and state.stalled_for >= 0.3 and not has_ended(state)


def _hurt(state: RankState) -> bool:
    if state.failure is not None:
        return tells_of_a_peer(state)
    return state.process.exit_code not in (None, 0)
