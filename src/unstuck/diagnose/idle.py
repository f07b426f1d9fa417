"""Nobody waits for anybody, and nothing moves: all that still run wait for something outside.

A storage or a service that does not answer holds up all ranks at once. No collective is under way
then, so no timeout of torch's ever ends it. In the same way one rank that never ends holds up
a job whose other ranks are done. A healthy job may stand still as well, for an upload or until
new data is there: so it is spoken of only after two minutes, and only if then none of its processes
and their children uses the processor; at a place known to be long only after three times as long.
"""

from collections import defaultdict

from unstuck.diagnose.barrier import in_barrier
from unstuck.diagnose.blocked import IDLE_CPU, view
from unstuck.diagnose.deaths import left_in_order
from unstuck.diagnose.finding import Finding, process_evidence, stack_evidence, user_line
from unstuck.diagnose.host import Doing, explain_rank, store_call
from unstuck.diagnose.patience import limit_of
from unstuck.diagnose.stall import GRACE, lacks_recorder, lacks_stack
from unstuck.diagnose.standing import Job, Standing
from unstuck.diagnose.words import place, ranks_text
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence

IDLE_FOR = 120.0
ASK_BEFORE = 10.0
"""So long before that the stacks and the processor time are asked for."""
_PHASES = ("run", "exit")
_MOST_ITEMS = 5
_MOST_PHRASES = 3
_MAY_GO_ON = Alternative(
    Cause.UNKNOWN, "look again in some minutes: what stands still on purpose goes on by itself"
)


def find_idle(job: Job) -> Finding | None:
    """Say that all living ranks stand still outside any operation, if they have for long."""
    states = _standing_still(job, IDLE_FOR)
    if not states or not all(_is_idle(state) for state in states):
        return None
    doings = [explain_rank(state) for state in states]
    ended = len(job.states) - len(states)
    return _explain_lingering(doings) if ended else _explain_all(states, doings)


def suspects_idle(job: Job) -> list[RankState]:
    """List the ranks of which more must be known before a job is said to stand still."""
    return [state for state in _standing_still(job, IDLE_FOR - ASK_BEFORE) if lacks_stack(state)]


def _standing_still(job: Job, seconds: float) -> list[RankState]:
    """List the living ranks; empty where one of them moves, waits in torch, or cannot be seen."""
    known, told = job.long_places, job.snapshot.controls
    if len(job.states) < job.snapshot.world_size:
        return []
    for rank, state in job.states.items():
        standing = job.standing(rank)
        if standing is Standing.GONE and left_in_order(state):
            continue
        if standing is not Standing.LIVE or state.phase not in _PHASES or _is_in_operation(state):
            return []
        if state.stalled_for < max(seconds, limit_of(state, seconds, known, told)):
            return []
        if store_call(state) or _may_be_well(state):
            return []
    return [] if in_barrier(job) else job.live


def _is_in_operation(state: RankState) -> bool:
    """Ask the recorder: torch's counters may stay one behind when two operations end at once."""
    if not state.in_flight:
        return False
    return bool(state.p2p) or lacks_recorder(state) or any(one.pending for one in state.groups)


def _may_be_well(state: RankState) -> bool:
    """Tell whether it may wait for a device, as a long kernel needs no processor, or a person."""
    if "tty_read" in state.process.waits_in:
        return True
    if not state.stack or state.process.state == "D":
        return False
    seen = view(state.stack)
    return seen.for_device or (seen.in_torch and not seen.on_host)


def _is_idle(state: RankState) -> bool:
    used = [state.waiting.cpu, *(child.cpu for child in state.waiting.children)]
    fresh = not lacks_stack(state) or state.stalled_for >= IDLE_FOR + GRACE
    return fresh and all(cpu is not None and cpu < IDLE_CPU for cpu in used)


def _explain_all(states: list[RankState], doings: list[Doing]) -> Finding:
    seconds = min(state.stalled_for for state in states)
    size = f"All {len(states)} ranks stand" if len(states) > 1 else "The only rank stands"
    return Finding(
        cause=Cause.BUSY_ELSEWHERE,
        confidence=Confidence.POSSIBLE,
        because="no collective is under way, no process of the job uses the processor, and none "
        "has moved since",
        culprits=(),
        victims=tuple(state.rank for state in states),
        seconds=seconds,
        summary=f"{size} still outside any collective: {_phrases(states, doings)}.",
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
        what = "stands" if doing.cause is Cause.UNKNOWN else doing.culprit.doing
        alike[what + (f" at {line}" if line else "")].append(state.rank)
    if len(alike) == 1:
        return f"each {next(iter(alike))}"
    told = [f"{ranks_text(ranks)}: {words}" for words, ranks in alike.items()]
    rest = len(told) - _MOST_PHRASES
    return "; ".join(told[:_MOST_PHRASES]) + (f"; and {rest} more" if rest > 0 else "")


def _alternatives(doings: list[Doing]) -> tuple[Alternative, ...]:
    """What each of them would be called if others waited for it, and that all may be well."""
    decide_by = "take a second stack some seconds later: the same line means that it is stuck"
    others = [
        Alternative(doing.cause, decide_by)
        for doing in doings
        if doing.cause not in (Cause.BUSY_ELSEWHERE, Cause.UNKNOWN)
    ]
    told = [other for doing in doings for other in doing.alternatives]
    unique = {one.cause: one for one in (*others, *told) if one.cause is not Cause.BUSY_ELSEWHERE}
    return (*unique.values(), _MAY_GO_ON)
