"""No rank waits for another, and nothing moves: all that still run wait for something outside.

Storage or a service that does not answer blocks all ranks at once. No collective is in flight
then, so no timeout of torch ever ends it. In the same way one rank that never exits holds up
a job whose other ranks are done. A healthy job may pause as well, for an upload or until new data
is there: so it is reported only after two minutes, the second of them without any sign of life in
its processes and their children; at a place known to take long only after three times as long, and
where work comes in (a queue, a request) only after five minutes.
"""

from collections import defaultdict

from unstuck.diagnose.case import Case
from unstuck.diagnose.dead.deaths import left_in_order
from unstuck.diagnose.finding import Finding, process_evidence, stack_evidence, user_line
from unstuck.diagnose.job.evidence import lacks_recorder, lacks_stack
from unstuck.diagnose.job.main_thread import in_barrier, store_call, view, waits_for
from unstuck.diagnose.job.patience import limit_of
from unstuck.diagnose.job.standing import Job, Standing
from unstuck.diagnose.stuck.host import Doing, explain_rank
from unstuck.diagnose.text import place, ranks_text
from unstuck.diagnose.thresholds import GRACE, IDLE_CPU, IDLE_FOR, INPUT_QUIET_FOR, QUIET_FOR
from unstuck.model.doing import WaitsForInput
from unstuck.model.neighbour import KernelWait
from unstuck.model.rank import Phase, RankState
from unstuck.model.verdict import Alternative, Basis, Cause, Confidence

_PHASES = (Phase.RUN, Phase.EXIT)
_MOST_ITEMS = 5
_MOST_PHRASES = 3
_MAY_GO_ON = Alternative(
    Cause.UNKNOWN, "look again in a few minutes: an intended pause ends by itself"
)


def nobody_waits(case: Case) -> list[Finding] | None:
    """Report that no living rank has made progress for long, outside any operation."""
    job = case.job
    states = _without_progress(job, IDLE_FOR)
    if not states or not all(_is_idle(state) for state in states):
        return None
    doings = [explain_rank(state) for state in states]
    if _may_get_input(job, states, doings):
        return None
    ended = len(job.states) - len(states)
    return [_explain_lingering(doings) if ended else _explain_all(states, doings)]


def _may_get_input(job: Job, states: list[RankState], doings: list[Doing]) -> bool:
    """Tell whether a rank waits where work comes in, and not for too long yet."""
    serves = any(isinstance(one.culprit.activity, WaitsForInput) for one in doings)
    patient = serves and not job.snapshot.controls.patience
    return patient and min(state.stalled_for for state in states) < INPUT_QUIET_FOR


def suspects_idle(job: Job) -> list[RankState]:
    """List the ranks whose stacks are needed before a job is said to make no progress."""
    return [state for state in _without_progress(job, IDLE_FOR - QUIET_FOR) if lacks_stack(state)]


def _without_progress(job: Job, seconds: float) -> list[RankState]:
    """List the living ranks; empty where one of them moves, waits in torch, or cannot be seen."""
    known, controls = job.long_places, job.snapshot.controls
    if len(job.states) < job.snapshot.world_size:
        return []
    for rank, state in job.states.items():
        standing = job.standing(rank)
        if standing is Standing.GONE and left_in_order(state):
            continue
        if standing is not Standing.LIVE or state.phase not in _PHASES or _is_in_operation(state):
            return []
        if state.stalled_for < max(seconds, limit_of(state, seconds, known, controls)):
            return []
        if store_call(state) or in_barrier(state) or _may_be_well(state):
            return []
    return job.live


def _is_in_operation(state: RankState) -> bool:
    """Ask the recorder: torch's counters may stay one behind when two operations end at once."""
    if not state.in_flight:
        return False
    return bool(state.p2p) or lacks_recorder(state) or any(one.pending for one in state.groups)


def _may_be_well(state: RankState) -> bool:
    """Tell whether it may wait for a device, as a long kernel uses no CPU, or for a person."""
    if waits_for(state) is KernelWait.TERMINAL:
        return True
    if not state.stack or state.process.state == "D":
        return False
    seen = view(state.stack)
    return seen.for_device or (seen.in_torch and not seen.on_host)


def _is_idle(state: RankState) -> bool:
    used = [state.waiting.cpu, *(child.cpu for child in state.waiting.children)]
    fresh = not lacks_stack(state) or state.stalled_for >= IDLE_FOR + GRACE
    idle = all(cpu is not None and cpu < IDLE_CPU for cpu in used)
    return fresh and idle and (state.life is None or state.life.quiet_for >= QUIET_FOR - GRACE)


def _explain_all(states: list[RankState], doings: list[Doing]) -> Finding:
    seconds = min(state.stalled_for for state in states)
    size = f"None of the {len(states)} ranks makes" if len(states) > 1 else "The only rank makes no"
    return Finding(
        cause=Cause.BUSY_ELSEWHERE,
        basis=Basis.TIME,
        confidence=Confidence.POSSIBLE,
        because="no collective is in flight, and no process of the job uses the CPU",
        culprits=(),
        victims=tuple(state.rank for state in states),
        seconds=seconds,
        summary=f"{size} progress, and no collective is in flight: {_phrases(states, doings)}.",
        evidence=tuple(
            item
            for state in states[:_MOST_ITEMS]
            for item in (process_evidence(state), *stack_evidence(state))
        ),
        alternatives=_alternatives(doings),
    )


def _explain_lingering(doings: list[Doing]) -> Finding:
    return Finding(
        cause=Cause.BUSY_ELSEWHERE,
        basis=Basis.TIME,
        confidence=Confidence.POSSIBLE,
        because=f"all other ranks have ended without an error; {doings[0].because}",
        culprits=tuple(doing.culprit for doing in doings),
        seconds=min(doing.culprit.seconds for doing in doings),
        evidence=tuple(item for doing in doings[:_MOST_ITEMS] for item in doing.evidence),
        alternatives=_alternatives(doings),
    )


def _phrases(states: list[RankState], doings: list[Doing]) -> str:
    """Say what they do, those that do the same together."""
    alike: dict[str, list[int]] = defaultdict(list)
    for state, doing in zip(states, doings, strict=True):
        line = place(user_line(state))
        what = "is" if doing.cause is Cause.UNKNOWN else doing.culprit.doing
        alike[what + (f" at {line}" if line else "")].append(state.rank)
    if len(alike) == 1:
        return f"each {next(iter(alike))}"
    phrases = [f"{ranks_text(ranks)}: {words}" for words, ranks in alike.items()]
    rest = len(phrases) - _MOST_PHRASES
    return "; ".join(phrases[:_MOST_PHRASES]) + (f"; and {rest} more" if rest > 0 else "")


def _alternatives(doings: list[Doing]) -> tuple[Alternative, ...]:
    """What the cause would be if others waited for them, and that nothing may be wrong."""
    decide_by = "take another stack a few seconds later: the same line means that it is stuck"
    others = [
        Alternative(doing.cause, decide_by)
        for doing in doings
        if doing.cause not in (Cause.BUSY_ELSEWHERE, Cause.UNKNOWN)
    ]
    others += [other for doing in doings for other in doing.alternatives]
    unique = {one.cause: one for one in others if one.cause is not Cause.BUSY_ELSEWHERE}
    return (*unique.values(), _MAY_GO_ON)
