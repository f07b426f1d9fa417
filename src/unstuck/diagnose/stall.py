"""From the sinks of the wait-for graph to findings, once the waiting has lasted long enough."""

from collections import defaultdict

import msgspec

from unstuck.diagnose.contention import pressure_of
from unstuck.diagnose.cut import explain_cut
from unstuck.diagnose.deaths import left_in_order
from unstuck.diagnose.finding import Finding, culprit, stack_evidence
from unstuck.diagnose.graph import WaitGraph
from unstuck.diagnose.host import Doing, explain_rank
from unstuck.diagnose.messages import explain_unmet
from unstuck.diagnose.network import explain_silent
from unstuck.diagnose.patience import limit_of, limit_of_wait
from unstuck.diagnose.silence import (
    explain_absentees,
    explain_ended_behind,
    explain_missing,
    explain_stopped,
    explain_unseen,
)
from unstuck.diagnose.standing import Job, Standing
from unstuck.diagnose.uneven import explain_left, find_leavers, has_left_everything
from unstuck.diagnose.waits import Sink, SinkKind
from unstuck.diagnose.words import seconds_text
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence, StuckOperation

SURE_AFTER = 2.0
"""A stopped, silent or ended rank needs no learned patience: its state is unambiguous."""
GRACE = 2.0
"""How much longer a verdict waits for evidence that was asked for and did not come."""
JOIN_WITHIN = 60.0
_MOST_ITEMS = 5


def explain_sink(
    graph: WaitGraph, sink: Sink, limit: float, *, fallen: bool = False
) -> list[Finding]:
    """Explain one sink, per cause; nothing while it is too early to tell.

    `fallen` says that ranks gave up waiting, so that there is nothing to be patient for.
    """
    job = graph.job
    if has_lasted(job, sink) >= SURE_AFTER and (cut := explain_cut(job, sink)):
        return [_complete(job, sink, cut)]
    if sink.kind is SinkKind.RANK:
        findings = _explain_ranks(job, sink, limit, fallen)
        return [_complete(job, sink, finding) for finding in findings]
    limit = limit_of_wait(_states(job, sink.stuck.waiting), limit, job.snapshot.controls)
    moved = min(_stalls(job, _taking_part(graph, sink)))
    if fallen or moved < limit or not _is_ready(job, sink, limit):
        findings = []
    elif sink.kind is SinkKind.CYCLE:
        findings = [explain_unmet(graph, sink.members) or _explain_cycle(job, sink)]
    else:
        findings = [_explain_group(job, sink)]
    return [_complete(job, sink, finding) for finding in findings]


def _taking_part(graph: WaitGraph, sink: Sink) -> tuple[int, ...]:
    """Return who shows that an operation all have begun stands still: all living members.

    One that has just gone on shows that it completes; the news of the others is on its way.
    """
    head = graph.heads[sink.stuck.waiting[0]]
    if sink.kind is SinkKind.CYCLE or head.p2p:
        return sink.members
    others = graph.groups[head.group].members
    live = (rank for rank in others if graph.job.standing(rank) is Standing.LIVE)
    return tuple({*sink.members, *live})


def has_lasted(job: Job, sink: Sink) -> float:
    """Return the longest wait among those that wait in the sink's operation."""
    return max(_stalls(job, sink.stuck.waiting), default=0.0)


def lacks_stack(state: RankState) -> bool:
    """Tell whether no stack was taken from outside since the rank last moved."""
    return state.stack_age is None or state.stack_age > state.stalled_for


def lacks_recorder(state: RankState) -> bool:
    """Tell whether the flight recorder was not read since the rank last moved."""
    return state.recorder_age is None or state.recorder_age > state.stalled_for


def _explain_ranks(job: Job, sink: Sink, limit: float, fallen: bool) -> list[Finding]:
    wait = has_lasted(job, sink)
    by_standing: dict[Standing, list[int]] = defaultdict(list)
    for rank in sink.members:
        by_standing[job.standing(rank)].append(rank)
    found: list[Finding] = []
    sure = fallen or wait >= SURE_AFTER
    if sure and (stopped := by_standing[Standing.STOPPED]):
        found.append(explain_stopped(_states(job, stopped)))
    if sure and (silent := by_standing[Standing.SILENT]):
        found += explain_silent(job, _states(job, silent))
    if sure and (gone := by_standing[Standing.GONE]):
        found += _explain_gone(_states(job, gone), fallen)
    join_within = max(JOIN_WITHIN, job.snapshot.controls.patience)
    if wait >= join_within and (missing := by_standing[Standing.MISSING]):
        found.append(explain_missing(job, missing, wait))
    if live := by_standing[Standing.LIVE]:
        found += _explain_living(job, sink, live, limit, fallen)
    if not found and wait >= limit and (unseen := by_standing[Standing.UNSEEN]):
        found.append(explain_unseen(job, unseen))
    return found


def _explain_gone(states: list[RankState], fallen: bool) -> list[Finding]:
    left = [state for state in states if left_in_order(state)]
    rest = [state for state in states if not left_in_order(state)]
    found = [explain_absentees(left)] if left else []
    return found + ([explain_ended_behind(rest)] if fallen and rest else [])


def _explain_living(
    job: Job, sink: Sink, ranks: list[int], limit: float, fallen: bool
) -> list[Finding]:
    # One that is still in init does what it can: joining.py says what holds it up.
    states = [state for state in _states(job, ranks) if state.phase != "init"]
    if not fallen:
        wait = has_lasted(job, sink)
        known, told = job.long_places, job.snapshot.controls
        states = [s for s in states if min(wait, s.stalled_for) >= limit_of(s, limit, known, told)]
        if not _is_ready(job, sink, limit):
            return []
    by_cause: dict[Cause, list[Doing]] = defaultdict(list)
    found: list[Finding] = []
    for state in states:
        doing = explain_rank(state, pressure_of(job, state.host))
        if left := has_left_everything(job, state, sink.stuck.waiting):
            found.append(explain_left(job, left, {state.rank: doing.culprit.doing}))
        else:
            by_cause[doing.cause].append(doing)
    return found + [_merge_doings(cause, all_, fallen) for cause, all_ in sorted(by_cause.items())]


def _merge_doings(cause: Cause, doings: list[Doing], fallen: bool) -> Finding:
    confidence = max((one.confidence for one in doings), key=list(Confidence).index)
    alternatives = [other for one in doings for other in one.alternatives]
    if fallen:
        decide_by = "compare the time this rank usually needs with the timeout of the group"
        alternatives.append(Alternative(Cause.TIMEOUT_TOO_SHORT, decide_by))
    return Finding(
        cause=cause,
        confidence=confidence,
        because="; ".join(sorted({one.because for one in doings})[:3]),
        culprits=tuple(one.culprit for one in doings),
        evidence=tuple(item for one in doings[:_MOST_ITEMS] for item in one.evidence),
        alternatives=tuple(dict.fromkeys(alternatives)),
    )


def _is_ready(job: Job, sink: Sink, limit: float) -> bool:
    resumed = job.snapshot.controls.resumed_for
    looked = has_lasted(job, sink) - limit if resumed is None else resumed
    if min(looked, has_lasted(job, sink) - limit) >= GRACE:
        return True
    waiting = _states(job, sink.stuck.waiting)
    if any(lacks_recorder(state) for state in waiting if job.standing(state.rank) is Standing.LIVE):
        return False
    asked = sink.members if sink.kind is not SinkKind.GROUP else ()
    live = (rank for rank in asked if job.standing(rank) is Standing.LIVE)
    return not any(lacks_stack(job.states[rank]) for rank in live)


def _explain_cycle(job: Job, sink: Sink) -> Finding:
    ordered = sorted(sink.orders, key=lambda order: (-len(order[1]), order[1]))
    if left := find_leavers(job, [ranks for _, ranks in ordered]):
        doing = {rank: f"waits in {told}" for told, ranks in ordered for rank in ranks}
        return explain_left(job, left, doing)
    tie = len(ordered) < 2 or len(ordered[0][1]) == len(ordered[1][1])
    blamed = ordered if tie else ordered[1:]
    culprits = [
        culprit(job.states[rank], f"waits in {told}", job.states[rank].stalled_for)
        for told, ranks in blamed
        for rank in ranks
    ]
    if tie:
        because = "the ranks wait for each other in a circle and no order has a majority"
    else:
        because = f"{len(ordered[0][1])} ranks are in {ordered[0][0]}; the others went another way"
    return Finding(
        cause=Cause.ORDER_INVERSION,
        confidence=Confidence.POSSIBLE if tie else Confidence.LIKELY,
        because=because,
        culprits=tuple(sorted(culprits, key=lambda one: one.rank)),
        victims=tuple(rank for rank in sink.members if rank not in {c.rank for c in culprits}),
        evidence=tuple(
            item for one in culprits[:_MOST_ITEMS] for item in stack_evidence(job.states[one.rank])
        ),
        alternatives=(
            Alternative(
                Cause.UNEVEN_WORK,
                "compare the branches that the ranks took: a rank that skipped an operation "
                "looks the same",
            ),
        ),
    )


def _explain_group(job: Job, sink: Sink) -> Finding:
    known = not any(lacks_recorder(state) for state in _states(job, sink.stuck.waiting))
    told = operation_phrase(sink.stuck)
    return Finding(
        cause=Cause.TRANSPORT_STALL,
        confidence=Confidence.LIKELY if known else Confidence.POSSIBLE,
        because=f"every member has begun {told} and none of them waits for anything else"
        + ("" if known else "; the flight recorder could not be read on all of them"),
        culprits=(),
        victims=sink.members,
        summary=f"All members of group {sink.stuck.group} are in {told} and it does not complete.",
        evidence=tuple(
            Evidence(
                f"rank {rank}: flight recorder",
                f"in {told} for {seconds_text(job.states[rank].stalled_for)}",
                "victim",
            )
            for rank in sink.stuck.waiting[:_MOST_ITEMS]
        ),
        alternatives=(
            Alternative(Cause.NETWORK_PARTITION, "test the links between the members' hosts"),
            Alternative(Cause.COLLECTIVE_MISMATCH, "compare reduce op and root on all members"),
        ),
    )


def operation_phrase(stuck: StuckOperation) -> str:
    """Write the stuck operation: `all_reduce #41 of group 0 (4 ranks)`."""
    if stuck.op in ("send", "recv"):
        return f"{stuck.op} #{stuck.number} of group {stuck.group}"
    return f"{stuck.op} #{stuck.number} of group {stuck.group} ({stuck.group_size} ranks)"


def _complete(job: Job, sink: Sink, finding: Finding) -> Finding:
    blamed = {one.rank for one in finding.culprits}
    victims = {*sink.victims, *finding.victims} - blamed
    return msgspec.structs.replace(
        finding,
        victims=tuple(sorted(victims)),
        seconds=max(has_lasted(job, sink), finding.seconds),
        stuck=sink.stuck,
        chain=sink.chain,
    )


def _states(job: Job, ranks: list[int] | tuple[int, ...]) -> list[RankState]:
    return [job.states[rank] for rank in ranks if rank in job.states]


def _stalls(job: Job, ranks: tuple[int, ...]) -> list[float]:
    return [job.states[rank].stalled_for for rank in ranks if rank in job.states]
