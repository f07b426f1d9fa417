"""What else should be looked at before a verdict: stacks and flight recorders of a few ranks."""

from unstuck.diagnose.case import Case
from unstuck.diagnose.job.evidence import lacks_recorder, lacks_stack
from unstuck.diagnose.job.standing import Standing
from unstuck.diagnose.stuck.no_progress import suspects_idle
from unstuck.diagnose.thresholds import SURE_AFTER, SUSPICION
from unstuck.diagnose.waits.joining import is_dated
from unstuck.diagnose.waits.meetings import INIT
from unstuck.diagnose.waits.sinks import SinkKind, has_lasted
from unstuck.model.rank import RankState
from unstuck.model.requests import EvidenceKind, EvidenceRequest

_MOST_STACKS = 64
_MOST_COMPARED = 3


def ask_for(case: Case) -> tuple[EvidenceRequest, ...]:
    """Return what the agents should send with their next frames."""
    job = case.job
    in_operation = [state for state in case.suspects if state.in_flight]
    found: list[EvidenceRequest] = []
    if any(lacks_recorder(state) for state in in_operation):
        ranks = tuple(sorted(state.rank for state in job.live if _wants_recorder(state)))
        found.append(EvidenceRequest(EvidenceKind.RECORDER, ranks))
    wanted = _stacks_wanted(case, in_operation)
    if stacks := tuple(sorted(dict.fromkeys(wanted[:_MOST_STACKS]))):
        found.append(EvidenceRequest(EvidenceKind.STACK, stacks))
    return tuple(found)


def _stacks_wanted(case: Case, in_operation: list[RankState]) -> list[int]:
    job = case.job
    if not case.suspects:
        return [state.rank for state in suspects_idle(job)]
    wanted = [s.rank for s in job.live if s.beat_age > SUSPICION and in_operation]
    if in_operation and all(head.call for head in case.graph.heads.values()):
        # No main thread is in an operation: other threads may be.
        wanted += [state.rank for state in (*in_operation, *suspects_idle(job))]
    for sink in case.sinks:
        if sink.kind is SinkKind.GROUP and not sink.call and job.snapshot.shows_life:
            wanted += sink.members[:_MOST_COMPARED]  # does any data flow?
        elif sink.kind is not SinkKind.GROUP and sink.call != INIT:
            wanted += sink.members
        if any(rank in job.states and job.states[rank].loops == () for rank in sink.members):
            # Where the others are matters: has this rank left their loop?
            wanted += sink.stuck.waiting[:_MOST_COMPARED] if sink.call != INIT else ()
    for finding in case.mismatches:
        wanted += [one.rank for one in finding.culprits] + list(finding.victims[:_MOST_COMPARED])
    live = [job.states[r] for r in wanted if job.standing(r) is Standing.LIVE]
    return [state.rank for state in live if lacks_stack(state)] + _dated_before_init(case)


def _dated_before_init(case: Case) -> list[int]:
    """List those that have not joined and of which a new stack would say why."""
    job = case.job
    return [
        rank
        for sink in case.sinks
        if sink.call == INIT and has_lasted(job, sink) >= SURE_AFTER
        for rank in sink.members
        if job.standing(rank) is Standing.LIVE and is_dated(job.states[rank])
    ]


def _wants_recorder(state: RankState) -> bool:
    # A moving rank is never up to date: once a second is enough for it.
    return state.recorder_age is None or state.recorder_age > max(state.stalled_for, SUSPICION)
