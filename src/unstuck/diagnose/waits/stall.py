"""From the sinks of the wait-for graph to findings, once the waiting has lasted long enough."""

from collections import defaultdict

from msgspec.structs import replace

from unstuck.diagnose.case import Case
from unstuck.diagnose.dead.deaths import left_in_order
from unstuck.diagnose.finding import Finding, culprit, stack_evidence
from unstuck.diagnose.job.evidence import lacks_recorder, lacks_stack, own_exception
from unstuck.diagnose.job.patience import limit_of, limit_of_wait
from unstuck.diagnose.job.standing import Job, Standing
from unstuck.diagnose.majority import Vote, vote
from unstuck.diagnose.network.lost_hosts import explain_silent
from unstuck.diagnose.network.split import explain_cut
from unstuck.diagnose.slow.contention import pressure_of
from unstuck.diagnose.stuck.absent import (
    explain_absentees,
    explain_ended_behind,
    explain_missing,
    explain_stopped,
    explain_unseen,
)
from unstuck.diagnose.stuck.hold_up import basis_of, because_of, hold_up_of
from unstuck.diagnose.stuck.host import Doing, explain_rank
from unstuck.diagnose.stuck.left_loop import (
    Left,
    explain_left,
    find_leavers,
    has_left_everything,
    merge_left,
)
from unstuck.diagnose.text import number_text, ranks_text, seconds_text
from unstuck.diagnose.thresholds import (
    FLOOR,
    FOUND_TOGETHER,
    GRACE,
    JOIN_WITHIN,
    SURE_AFTER,
    SUSPICION,
)
from unstuck.diagnose.waits.device import explain_device, find_stopped
from unstuck.diagnose.waits.graph import WaitGraph
from unstuck.diagnose.waits.joining import explain_joining
from unstuck.diagnose.waits.meetings import INIT
from unstuck.diagnose.waits.messages import explain_unmet
from unstuck.diagnose.waits.mismatch import OUT_OF_DATA
from unstuck.diagnose.waits.sinks import Sink, SinkKind, has_lasted
from unstuck.diagnose.waits.store import find_lost_store
from unstuck.model.doing import Activity, InCall, Unclear
from unstuck.model.life import Sign
from unstuck.model.rank import RankState
from unstuck.model.verdict import (
    Alternative,
    Basis,
    Cause,
    Confidence,
    Evidence,
    Role,
    StuckOperation,
)

_MOST_ITEMS = 5


def calls_differ(case: Case) -> list[Finding] | None:
    """Say that members of a group call different collectives under the same number."""
    least = min(case.limit, FLOOR)
    return [finding for finding in case.mismatches if finding.seconds >= least] or None


def waited_for(case: Case) -> list[Finding] | None:
    """Explain all sinks at once; while one is about to reach its limit, the others wait for it."""
    if not case.sinks:
        return None
    graph, limit = case.graph, case.limit
    explained = [(sink, explain_sink(graph, sink, limit)) for sink in case.sinks]
    reached = [sink for sink, found in explained if found]
    early = [sink for sink in reached if has_lasted(graph.job, sink) < limit + GRACE]
    if len(reached) < len(explained) and len(early) == len(reached):
        soon = max(SUSPICION, limit - FOUND_TOGETHER)
        if any(not found and explain_sink(graph, sink, soon) for sink, found in explained):
            return None
    found = [one for _, several in explained for one in several]
    return [*found, *_stopped_beside(graph.job, found)] or None


def _stopped_beside(job: Job, found: list[Finding]) -> list[Finding]:
    """Name stopped ranks of a stalled job that nobody seems to wait for, as second faults.

    A rank that was stopped inside the collective has arrived there, and yet cannot go on.
    """
    blamed = {one.rank for finding in found for one in finding.culprits}
    stopped = [
        state
        for rank, state in job.states.items()
        if rank not in blamed and job.standing(rank) is Standing.STOPPED
    ]
    return [explain_stopped(stopped)] if found and stopped else []


def explain_sink(
    graph: WaitGraph, sink: Sink, limit: float, *, fallen: bool = False
) -> list[Finding]:
    """Explain one sink, per cause; nothing while it is too early to tell.

    `fallen` says that ranks gave up waiting, so that there is nothing to be patient for.
    """
    job = graph.job
    if has_lasted(job, sink) >= SURE_AFTER and (cut := explain_cut(job, sink)):
        return [_complete(job, sink, cut)]
    if sink.call == INIT and sink.kind is not SinkKind.CYCLE:
        return [_complete(job, sink, finding) for finding in explain_joining(job, sink)]
    if sink.call and (lost := find_lost_store(job, _states(job, sink.stuck.waiting))):
        return [_complete(job, sink, lost)] if has_lasted(job, sink) >= limit else []
    if sink.kind is SinkKind.RANK:
        findings = _explain_ranks(job, sink, limit, fallen)
        return [_complete(job, sink, finding) for finding in findings]
    limit = limit_of_wait(_states(job, sink.stuck.waiting), limit, job.snapshot.controls)
    moved = min(_stalls(job, _taking_part(graph, sink)))
    if fallen or moved < limit or not _is_ready(job, sink, limit):
        findings = []
    elif not sink.call and (stopped := find_stopped(job)):
        findings = [replace(explain_device(job, stopped), victims=sink.members)]
    elif sink.kind is SinkKind.CYCLE:
        findings = [explain_unmet(graph, sink.members) or _explain_cycle(job, sink)]
    elif sink.call:
        findings = []  # all are there: it may take its time
    elif _data_flows(job, sink):
        findings = []
    else:
        findings = [_explain_group(job, sink)]
    return [_complete(job, sink, finding) for finding in findings]


def _data_flows(job: Job, sink: Sink) -> bool:
    """Tell whether bytes of an operation still arrive: it is large, or the network slow."""
    lives = (state.life for state in _states(job, sink.members))
    return any(life is not None and Sign.NETWORK in life.signs for life in lives)


def _taking_part(graph: WaitGraph, sink: Sink) -> tuple[int, ...]:
    """Return who shows that an operation that all have begun makes no progress: all living members.

    One that has just gone on shows that it completes; the news of the others is on its way.
    """
    head = graph.heads[sink.stuck.waiting[0]]
    if sink.kind is SinkKind.CYCLE or head.p2p or head.call:
        return sink.members
    others = graph.groups[head.group].members
    live = (rank for rank in others if graph.job.standing(rank) is Standing.LIVE)
    return tuple({*sink.members, *live})


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
        states = [s for s in states if min(wait, s.stalled_for) >= _limit_of(job, s, limit)]
        if not _is_ready(job, sink, limit):
            return []
    left: list[Left] = []
    instead: dict[int, Activity] = {}
    late: list[tuple[RankState, Doing]] = []
    for state in states:
        doing = explain_rank(own_exception(job, state), pressure_of(job, state.host))
        gone = None if sink.call else has_left_everything(job, state, sink.stuck.waiting)
        if gone is not None:
            left.append(gone)
            instead[state.rank] = doing.culprit.activity or Unclear()
        else:
            late.append((state, doing))
    found = [explain_left(job, one, instead) for one in merge_left(left)]
    if fallen:
        merged = _merge_causes([(doing, Basis.PROOF) for _, doing in late], fallen=True)
    else:
        merged = _judge(job, sink, late)
    return found + [_not_called(sink.call, finding) for finding in merged]


def _limit_of(job: Job, state: RankState, learned: float) -> float:
    seen = job.snapshot.shows_life
    return limit_of(
        state, learned, job.long_places, job.snapshot.controls, spare_long_work=not seen
    )


def _judge(job: Job, sink: Sink, late: list[tuple[RankState, Doing]]) -> list[Finding]:
    """Divide those that keep others waiting into the ones that are stuck and mere hold-ups."""
    judged: list[tuple[Doing, Basis]] = []
    held: list[tuple[RankState, Doing]] = []
    wait = has_lasted(job, sink)
    for state, doing in late:
        waited = min(wait, state.stalled_for)
        basis = basis_of(job, state, doing.culprit, doing.proof, waited)
        if basis is None:
            held.append((state, doing))
        else:
            because = doing.because + because_of(basis, doing.proof, state, waited)
            judged.append((replace(doing, because=because), basis))
    found = _merge_causes(judged)
    if held:
        state, first = held[0]
        waiting, group = sink.stuck.waiting, sink.stuck.group
        hold_up = hold_up_of(job, state, first.culprit, waiting, group)
        merged = _merge_doings(first.cause, [doing for _, doing in held], fallen=False)
        found.append(replace(merged, hold_up=hold_up))
    return found


def _merge_causes(doings: list[tuple[Doing, Basis]], *, fallen: bool = False) -> list[Finding]:
    by_cause: dict[Cause, list[tuple[Doing, Basis]]] = defaultdict(list)
    for doing, basis in doings:
        by_cause[doing.cause].append((doing, basis))
    return [
        replace(
            _merge_doings(cause, [doing for doing, _ in alike], fallen=fallen),
            basis=min((basis for _, basis in alike), key=list(Basis).index),
        )
        for cause, alike in sorted(by_cause.items())
    ]


def _not_called(call: str, finding: Finding) -> Finding:
    if not call:
        return finding
    because = f"it has not called {call}, in which the others wait; {finding.because}"
    return replace(finding, because=because)


def _merge_doings(cause: Cause, doings: list[Doing], *, fallen: bool) -> Finding:
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
    in_operation = [s for s in waiting if s.in_flight and job.standing(s.rank) is Standing.LIVE]
    if any(lacks_recorder(state) for state in in_operation):
        return False
    asked = sink.members if sink.kind is not SinkKind.GROUP else ()
    live = (rank for rank in asked if job.standing(rank) is Standing.LIVE)
    return not any(lacks_stack(job.states[rank]) for rank in live)


def _explain_cycle(job: Job, sink: Sink) -> Finding:
    """Blame the smaller side of a circle; in a meeting it calls something else than the others."""
    sides = vote(dict(sink.orders))
    doing = {rank: InCall(op) for op, ranks in sides.sides for rank in ranks}
    if not sink.call and (left := find_leavers(job, [ranks for _, ranks in sides.sides])):
        return explain_left(job, left, doing)
    states = _states(job, sides.ranks)
    if sink.call:
        cause, because = Cause.COLLECTIVE_MISMATCH, _calls_differ(sides.sides)
        decide_by = OUT_OF_DATA
    else:
        cause, because = Cause.ORDER_INVERSION, _orders_differ(sides)
        decide_by = (
            "compare the branches that the ranks took: a rank that skipped an operation "
            "looks the same"
        )
    return Finding(
        cause=cause,
        confidence=Confidence.POSSIBLE if sides.tie else Confidence.LIKELY,
        because=because,
        culprits=tuple(culprit(state, doing[state.rank], state.stalled_for) for state in states),
        victims=tuple(rank for rank in sink.members if rank not in sides.ranks),
        evidence=tuple(item for state in states[:_MOST_ITEMS] for item in stack_evidence(state)),
        alternatives=(Alternative(Cause.UNEVEN_WORK, decide_by),),
    )


def _calls_differ(sides: list[tuple[str, list[int]]]) -> str:
    text = ", ".join(f"{ranks_text(ranks)} in {op}" for op, ranks in sides)
    note = "; every rank must call new_group, including those that are not members"
    return text + (note if any(op == "new_group" for op, _ in sides) else "")


def _orders_differ(sides: Vote[str]) -> str:
    if sides.tie:
        return "the ranks wait for each other in a circle and no order has a majority"
    op, ranks = sides.sides[0]
    return f"{len(ranks)} ranks are in {op}; the others went another way"


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
                Role.VICTIM,
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
        return f"{stuck.op}{number_text(stuck.number)} of group {stuck.group}"
    number = number_text(stuck.number)
    return f"{stuck.op}{number} of group {stuck.group} ({stuck.group_size} ranks)"


def _complete(job: Job, sink: Sink, finding: Finding) -> Finding:
    blamed = {one.rank for one in finding.culprits}
    victims = {*sink.victims, *finding.victims} - blamed
    return replace(
        finding,
        victims=tuple(sorted(victims)),
        seconds=max(has_lasted(job, sink), finding.seconds),
        stuck=None if sink.stuck.op == sink.call else sink.stuck,
        chain=sink.chain,
    )


def _states(job: Job, ranks: list[int] | tuple[int, ...]) -> list[RankState]:
    return [job.states[rank] for rank in ranks if rank in job.states]


def _stalls(job: Job, ranks: tuple[int, ...]) -> list[float]:
    return [job.states[rank].stalled_for for rank in ranks if rank in job.states]
