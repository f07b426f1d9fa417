"""Slow, not stuck: a rank whose own work takes longer than the others', who wait for it.

Ranks that train together take equally long for a step; what differs is how much of it each spends
on its own work and how much it waits. So own times are compared, never step times, and only between
ranks that take the same steps.
"""

from statistics import median

from msgspec import Struct

from unstuck.diagnose.case import Case
from unstuck.diagnose.finding import Finding, culprit
from unstuck.diagnose.job.main_thread import call_in_progress
from unstuck.diagnose.job.standing import Job, Standing, survey
from unstuck.diagnose.slow.contention import (
    Shortage,
    find_shortage,
    is_starved,
    pressure_of,
    slow_by_themselves,
    waits_by_chance,
)
from unstuck.diagnose.text import ranks_text
from unstuck.diagnose.thresholds import (
    BEYOND_CHANCE,
    BEYOND_CHANCE_IF_STARVED,
    COST,
    ENOUGH_STEPS,
    FACTOR,
    FACTOR_IF_STARVED,
    LAST_ON_DEVICE,
    LEAST_COST,
    LONG_ENOUGH,
    NEW,
    OVER,
    SAME_STEP,
)
from unstuck.diagnose.waits.operations import group_key, runs_in_order
from unstuck.diagnose.wording import phrase, time_text
from unstuck.model.doing import Slow
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence, Role, Verdict

_FROM_ONE = frozenset(
    {
        *("broadcast", "broadcast_object_list", "scatter", "scatter_object_list"),
        *("gather", "gather_object", "reduce", "recv", "irecv"),
    }
)
"""Calls in which one rank has another part than the others."""
_MOST_ITEMS = 4


class Lag(Struct, frozen=True):
    """Ranks that hold the others up."""

    slow: list[RankState]
    rest: list[RankState]
    own: float
    others: float
    """Typical own time of the others."""
    step: float
    saved: float
    """How much shorter a step would be without them."""
    new: bool
    factor: float
    """How many times the others' own time they need at least."""


def rank_is_slow(case: Case) -> list[Finding] | None:
    """Find the ranks that slow a moving job down; None while nothing clear can be said."""
    states = _comparable(case.job)
    if not states:
        return None
    lag = _find_lag(states, FACTOR) or _find_starved(states)
    if lag is None or not _is_fair(lag, states):
        return None
    if waits_by_chance(case.job, lag.slow, lag.rest, _excess(lag)):
        return None
    return [_explain(case.job, lag)]


def is_over(verdict: Verdict, snapshot: Snapshot) -> bool:
    """Tell whether the culprits of a slow job keep up with the others again."""
    states = _comparable(survey(snapshot))
    blamed = {one.rank for one in verdict.culprits}
    slow = [state.tempo.own for state in states if state.rank in blamed]
    rest = [state.tempo.own for state in states if state.rank not in blamed]
    if len(slow) < len(blamed) or not rest:
        return False
    step = median(state.tempo.step for state in states)
    excess = max(slow) - median(rest)
    factor = FACTOR_IF_STARVED if verdict.cause is Cause.RESOURCE_CONTENTION else FACTOR
    return excess < OVER * COST * step or max(slow) < (1 + (factor - 1) * OVER) * median(rest)


def _comparable(job: Job) -> list[RankState]:
    """Return all ranks if they take the same steps and move; else none."""
    states = list(job.states.values())
    if len(states) < 2 or any(state.tempo.steps < ENOUGH_STEPS for state in states):
        return []
    if any(standing is not Standing.LIVE for standing in job.standings.values()):
        return []
    if len(states) < job.snapshot.world_size or len({state.tempo.unit for state in states}) > 1:
        return []
    steps = [state.tempo.step for state in states]
    typical = median(steps)
    if max(steps) - min(steps) > SAME_STEP * typical:
        return []
    pause = max(2.0, 3 * typical)
    return states if all(state.stalled_for < pause for state in states) else []


def _find_starved(states: list[RankState]) -> Lag | None:
    lag = _find_lag(states, FACTOR_IF_STARVED, BEYOND_CHANCE_IF_STARVED)
    return lag if lag and is_starved(lag.slow, lag.rest, _excess(lag)) else None


def _find_lag(states: list[RankState], factor: float, beyond: float = BEYOND_CHANCE) -> Lag | None:
    """Divide the ranks where their own times differ most, if they differ enough."""
    ordered = sorted(states, key=lambda state: -state.tempo.own)
    most = max(1, len(ordered) // 4)
    sizes = sorted({*range(1, most + 1), *_host_sizes(ordered)})
    size = max(sizes, key=lambda size: _gap(ordered, size))
    slow, rest = ordered[:size], ordered[size:]
    step = median(state.tempo.step for state in states)
    own, others = slow[-1].tempo.own, median(state.tempo.own for state in rest)
    saved = _gap(ordered, size)
    least = LEAST_COST if states[0].tempo.unit == "step" else 0.0
    if own < factor * others or saved < max(COST * step, least, _spread(rest)):
        return None
    if own - others < beyond * max(state.tempo.error for state in slow):
        return None
    if own < LAST_ON_DEVICE * step and any(runs_in_order(state) for state in slow):
        return None
    new = all(s.tempo.usual_own and s.tempo.own >= NEW * s.tempo.usual_own for s in slow)
    slow.sort(key=lambda state: state.rank)
    typical = median(s.tempo.own for s in slow)
    return Lag(slow, rest, typical, others, step, saved, new, factor)


def _spread(rest: list[RankState]) -> float:
    """Return how far the others differ among themselves, but for a tenth at either end.

    Where speeds are spread evenly, the last one is no exception.
    """
    skipped = len(rest) // 10
    return rest[skipped].tempo.own - rest[-1 - skipped].tempo.own


def _gap(ordered: list[RankState], size: int) -> float:
    return ordered[size - 1].tempo.own - ordered[size].tempo.own


def _host_sizes(ordered: list[RankState]) -> list[int]:
    """Return how many ranks come first that are just those of one host, at most half of all."""
    host = ordered[0].host
    size = sum(state.host == host for state in ordered)
    whole = all(state.host == host for state in ordered[:size])
    return [size] if whole and size <= len(ordered) // 2 else []


def _is_fair(lag: Lag, states: list[RankState]) -> bool:
    """Tell whether the ranks may be compared: they should need the same time.

    Where some ranks wait for what one of them hands out, and in a job of several groups, roles
    and stages may differ from the beginning: there only a change is reported, and only for a
    rank that is slow among the members of each of its groups.
    """
    groups = _subgroups(states)
    if not lag.new and (_covered(lag) < LONG_ENOUGH or groups or _have_roles(lag.rest)):
        return False
    slow = {state.rank for state in lag.slow}
    by_rank = {state.rank: state for state in states}
    for members in groups:
        mine = [by_rank[rank].tempo.own for rank in members if rank in slow and rank in by_rank]
        theirs = [by_rank[r].tempo.own for r in members if r not in slow and r in by_rank]
        if mine and theirs and min(mine) < lag.factor * median(theirs):
            return False
    # A group's members that are all slow may be one pipeline behind one slow stage.
    return not groups or len(slow) == 1


def _have_roles(waiting: list[RankState]) -> bool:
    return any(call_in_progress(state) in _FROM_ONE for state in waiting)


def _subgroups(states: list[RankState]) -> list[tuple[int, ...]]:
    found: dict[tuple[str, int, int, int], tuple[int, ...]] = {}
    for state in states:
        for progress in state.groups:
            if 1 < len(progress.ranks) < len(states) and progress.enqueued:
                found.setdefault(group_key(progress), progress.ranks)
    return list(found.values())


def _excess(lag: Lag) -> float:
    """Return the share of a step that they need more than the others."""
    return (lag.own - lag.others) / lag.step


def _explain(job: Job, lag: Lag) -> Finding:
    shortage = find_shortage(job, lag.slow, lag.rest, _excess(lag))
    return Finding(
        cause=Cause.RESOURCE_CONTENTION if shortage else Cause.STRAGGLER,
        confidence=Confidence.LIKELY if shortage or _is_sure(lag) else Confidence.POSSIBLE,
        because=_because(lag, shortage),
        culprits=tuple(
            culprit(state, _doing(lag, shortage), 0.0, state.tempo.place) for state in lag.slow
        ),
        victims=tuple(sorted(state.rank for state in lag.rest)),
        seconds=_lasted(lag),
        slowdown=round(lag.step / (lag.step - lag.saved), 2),
        evidence=_evidence(lag) + (shortage.evidence if shortage else ()),
        alternatives=_alternatives(job, lag, shortage),
        summary=_summary(lag, shortage),
    )


def _is_sure(lag: Lag) -> bool:
    """Without steps nobody knows what a rank is for, so only a change is a clear sign."""
    return lag.new or _unit(lag) == "step"


def _lasted(lag: Lag) -> float:
    """Return since when they are slow: since the change, or for as long as they are known."""
    if lag.new:
        return max(state.tempo.changed_for for state in lag.slow) or _covered(lag)
    return max(_covered(lag), min(state.age for state in lag.slow))


def _covered(lag: Lag) -> float:
    return min(state.tempo.steps * state.tempo.step for state in lag.slow)


def _doing(lag: Lag, shortage: Shortage | None) -> Slow:
    return Slow(lag.own, lag.others, _unit(lag), shortage.lacks if shortage else None)


def _summary(lag: Lag, shortage: Shortage | None) -> str:
    who = ranks_text(state.rank for state in lag.slow)
    verb = "slows" if len(lag.slow) == 1 else "slow"
    each = "it" if len(lag.slow) == 1 else "each"
    return (
        f"{who[:1].upper()}{who[1:]} {verb} the job down from {time_text(lag.step - lag.saved)} to "
        f"{time_text(lag.step)} per {_unit(lag)}: {each} {phrase(_doing(lag, shortage))}."
    )


def _because(lag: Lag, shortage: Shortage | None) -> str:
    steps = min(state.tempo.steps for state in lag.slow)
    waited = [1 - median(s.tempo.own for s in part) / lag.step for part in (lag.rest, lag.slow)]
    text = f"over the last {steps} {_unit(lag)}s the others waited {max(0, waited[0]):.0%} of the "
    text += f"time, it {max(0, waited[1]):.0%}"
    if lag.new:
        usual = median(state.tempo.usual_own for state in lag.slow)
        text += f"; before that, it needed {time_text(usual)}"
    else:
        text += "; it has never been seen faster"
    return f"{shortage.because}; {text}" if shortage else text


def _evidence(lag: Lag) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    for state in (*lag.slow[:_MOST_ITEMS], *lag.rest[:_MOST_ITEMS]):
        tempo = state.tempo
        text = f"{time_text(tempo.own)} of {time_text(tempo.step)} per {tempo.unit} outside "
        text += f"collectives, over {tempo.steps} {tempo.unit}s; main thread on a core "
        text += f"{state.process.cpu:.0%} of the time"
        role = Role.ROOT if state in lag.slow else Role.VICTIM
        found.append(Evidence(f"rank {state.rank}: probe", text, role))
        if role is Role.ROOT and tempo.place is not None:
            at = tempo.place
            text = f"{tempo.place_share:.0%} of its own time at line {at.line}: {at.text.strip()}"
            found.append(Evidence(f"rank {state.rank}: probe", text, role, at.file, at.line))
    return tuple(found)


def _alternatives(job: Job, lag: Lag, shortage: Shortage | None) -> tuple[Alternative, ...]:
    who = ranks_text(state.rank for state in lag.slow)
    more_work = Alternative(
        Cause.UNEVEN_WORK, f"compare the work of {who}: more or longer samples, a different role"
    )
    if shortage is not None:
        return (more_work,)
    found = [more_work]
    pressure = pressure_of(job, lag.slow[0].host)
    delayed = min(state.process.delayed for state in lag.slow)
    if delayed >= COST and slow_by_themselves(lag.slow, lag.rest):
        words = f"free some cores for {who}: it also waits for one {delayed:.0%} of the time"
        found.append(Alternative(Cause.RESOURCE_CONTENTION, words))
    elif "delays" in pressure.unseen or max(pressure.io, pressure.memory) >= 2 * COST:
        found.append(Alternative(Cause.RESOURCE_CONTENTION, _host_words(pressure.unseen)))
    if any(state.process.cpu >= 0.5 for state in lag.slow):
        found.append(
            Alternative(
                Cause.HARDWARE_FAULT,
                f"run {who} on another machine: a throttled chip stays slow where it is",
            )
        )
    return tuple(found)


def _host_words(unseen: tuple[str, ...]) -> str:
    if "delays" in unseen:
        return "check with top whether its process gets a core: this kernel does not report it"
    return "check whether its steps read or write: its host is under I/O or memory pressure"


def _unit(lag: Lag) -> str:
    return lag.slow[0].tempo.unit
