"""Ranks that died, failed or left: which of them is the root, which only followed."""

import signal
from dataclasses import dataclass

from unstuck.diagnose.job.main_thread import call_in_progress
from unstuck.diagnose.job.standing import Job, has_ended
from unstuck.diagnose.thresholds import (
    AHEAD,
    SEEN_WITHIN,
    SIMULTANEOUS,
    SUFFERS_AFTER,
    TERMINATED_AFTER,
)
from unstuck.diagnose.waits.operations import GroupKey, group_key, runs_in_order
from unstuck.model.rank import GroupProgress, Phase, RankState
from unstuck.observe.probe import peer_loss


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
        if _is_over(state):
            (left if left_in_order(state) else ended).append(Death(state, _age(state)))
    if len(left) + len(ended) == len(job.states) and all(map(_was_dismissed, ended)):
        left, ended = [*left, *ended], []
    ended.sort(key=lambda death: (-death.age, death.state.rank))
    vanished = [death for death in ended if _vanished(death.state)]
    needed, sufferers = _needed(job, [*left, *vanished])
    needed |= _left_over(job, ended, vanished)
    sure = [d for d in ended if not _vanished(d.state) or d.state.rank in needed]
    leavers = [death for death in left if death.state.rank in needed]
    first = max((death.age for death in sure), default=0.0)
    roots: list[Death] = []
    followers: list[Death] = []
    cleared = [gone for death in sure if (gone := _cleared_away(death)) is not None]
    explained = [d.age for d in sure if not _vanished(d.state) and not _follows(d, first)]
    for death in sure:
        follows = (
            _follows(death, first)
            or _may_be_cleared_away(death, cleared, explained)
            or _follows_leaver(death, leavers, sufferers)
        )
        follows = follows and not _is_lone_target(job, death)
        (followers if follows else roots).append(death)
    leavers.sort(key=lambda death: (-death.age, death.state.rank))
    return Deaths(tuple(roots), tuple(followers), tuple(leavers), tuple(sorted(sufferers)))


def left_in_order(state: RankState) -> bool:
    """Tell whether a rank reached its end, or gave its groups up, without any error to be seen."""
    if state.failure is not None:
        return False
    code = exit_code(state)
    return code == 0 or (code is None and (state.phase == Phase.EXIT or state.left_for is not None))


def _was_dismissed(death: Death) -> bool:
    """Tell whether a process was ended from outside when it had nothing to do any more.

    Ray ends its workers so when the training is over: by a signal, or without Python's own end.
    """
    state = death.state
    done = state.left_for is not None or _runs_no_script(state)
    if not done or state.failure is not None or state.exit_asked is not None:
        return False
    if state.phase != Phase.RUN or state.process.oom_kills:
        return False
    return death.signal in (0, signal.SIGTERM, signal.SIGKILL)


def _runs_no_script(state: RankState) -> bool:
    """Tell whether the main thread was back in the library that had called the script's code."""
    return bool(state.stack) and not state.in_flight and not any(line.user for line in state.stack)


def exit_code(state: RankState) -> int | None:
    """Return how the process ended, or will end because its script said so; None if unknown."""
    code = state.process.exit_code
    return state.exit_asked if code is None else code


def _is_over(state: RankState) -> bool:
    if has_ended(state) or state.failure or state.phase in (Phase.EXIT, Phase.EXCEPTION):
        return True
    return state.left_for is not None


def tells_of_a_peer(state: RankState) -> bool:
    """Tell whether a rank's exception speaks of another rank's end or delay."""
    failure = state.failure
    return failure is not None and peer_loss.tells_of_a_peer(failure.message)


def timed_out(state: RankState) -> bool:
    """Tell whether a rank failed because its own wait reached its timeout."""
    words = ("timed out", "wait timeout", "timeout")
    message = state.failure.message.lower() if state.failure else ""
    return any(word in message for word in words)


def _age(state: RankState) -> float:
    failed = state.failure.age if state.failure else None
    known = [state.process.gone_for, failed, state.left_for]
    ages = [age for age in known if age is not None]
    if ages:
        return max(ages)
    # Of a zombie whose end was not noted yet no more is known than that it is new.
    return 0.0 if has_ended(state) else state.stalled_for


def _vanished(state: RankState) -> bool:
    """Tell whether a process is gone and nothing says how."""
    return state.failure is None and state.process.exit_code is None


def _follows(death: Death, first: float) -> bool:
    if death.state.failure is not None:
        return tells_of_a_peer(death.state)
    if death.signal == signal.SIGTERM or _gave_up(death):
        return True
    after = death.age < first - SIMULTANEOUS
    return after and death.signal in (signal.SIGKILL, signal.SIGABRT)


def aborted_in_collective(death: Death) -> bool:
    """Tell whether a thread of the backend aborted a rank that waited in a collective."""
    native = death.signal == signal.SIGABRT and death.state.crashed_in == "native"
    return native and bool(call_in_progress(death.state))


def _gave_up(death: Death) -> bool:
    """On a device a watchdog aborts the rank whose operation does not end: others hold it up."""
    return aborted_in_collective(death) and runs_in_order(death.state)


def _left_over(job: Job, ended: list[Death], vanished: list[Death]) -> set[int]:
    """Find the rank that must have died first, because all others cannot have.

    They complained of a lost peer or were terminated after that; only of this one nothing is known,
    but that it was gone before those were.
    """
    others = [death for death in ended if not _vanished(death.state)]
    terminated = [death for death in others if _terminated(death)]
    complained = [death for death in others if tells_of_a_peer(death.state)]
    if len(vanished) != 1 or len(ended) < len(job.states) or not terminated:
        return set()
    if len(terminated) + len(complained) < len(others):
        return set()
    first = max(death.age for death in terminated)
    lead = vanished[0].age - first
    if complained:
        missed = max(death.age for death in complained) > first
    else:
        missed = _ended_at_one_stroke(job, terminated, lead)
    return {vanished[0].state.rank} if missed and lead >= AHEAD else set()


def _ended_at_one_stroke(job: Job, terminated: list[Death], lead: float) -> bool:
    """Tell whether the job's only launcher ended these, all within half of what one was ahead.

    Where a launcher ends all ranks, a busy machine lets some of them die later than others.
    """
    ages = [death.age for death in terminated]
    one_host = len({state.host for state in job.states.values()}) == 1
    return one_host and len(ages) >= 2 and 2 * (max(ages) - min(ages)) < lead


def _cleared_away(death: Death) -> float | None:
    """Tell how long ago a launcher ended this process, which may have failed before."""
    gone = death.state.process.gone_for
    return gone if death.signal == signal.SIGTERM else None


def _may_be_cleared_away(death: Death, cleared: list[float], explained: list[float]) -> bool:
    """Of a process nothing is known; its launcher may have ended it after another one's death.

    It is gone after one that died for a reason of its own, or together with those that were ended.
    """
    if not _vanished(death.state):
        return False
    after = any(age >= death.age for age in explained)
    return after or any(death.age - gone < AHEAD for gone in cleared)


def _is_lone_target(job: Job, death: Death) -> bool:
    """Tell whether only this rank was sent SIGTERM.

    A launcher that ends its job sends it to all ranks of a host in the same moment. Here the
    others live on, fell over the loss of this one, or were ended clearly later.
    """
    if not _terminated(death) or death.age < TERMINATED_AFTER:
        return False
    beside = [s for s in job.states.values() if s.host == death.state.host]
    others = [s for s in beside if s.rank != death.state.rank]
    ended = [s for s in others if has_ended(s) and not tells_of_a_peer(s)]
    if ended and len(beside) < len(job.states):
        return False  # what happened on the other hosts may not be known yet
    if any(_may_have_caused(state, death) for state in others):
        return False
    return len(others) >= 2 and all(death.age - _age(state) >= AHEAD for state in ended)


def _may_have_caused(state: RankState, death: Death) -> bool:
    """Tell whether a rank complained or was gone before this death, which then only followed."""
    gone = state.process.gone_for
    if gone is not None and gone > death.age:
        return True
    return tells_of_a_peer(state) and _age(state) > death.age + SEEN_WITHIN


def _terminated(death: Death) -> bool:
    return death.signal == signal.SIGTERM and death.state.failure is None


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
    return state.in_flight and state.stalled_for >= SUFFERS_AFTER and not has_ended(state)


def _hurt(state: RankState) -> bool:
    if state.failure is not None:
        return tells_of_a_peer(state)
    return state.process.exit_code not in (None, 0)
