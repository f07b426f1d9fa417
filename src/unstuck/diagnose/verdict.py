"""The entry point: a snapshot in, a verdict or the wish for more evidence out."""

import signal

from msgspec.structs import replace

from unstuck.diagnose.barrier import explain_apart, find_barrier_waits, in_barrier
from unstuck.diagnose.crash import (
    explain_abort,
    explain_followers,
    explain_leavers,
    explain_roots,
    followers_evidence,
)
from unstuck.diagnose.deaths import (
    Deaths,
    aborted_in_collective,
    find_deaths,
    tells_of_a_peer,
    timed_out,
)
from unstuck.diagnose.finding import Finding
from unstuck.diagnose.graph import WaitGraph, build_graph
from unstuck.diagnose.heads import GroupKey, Head, all_have_begun, group_key, last_words
from unstuck.diagnose.healed import find_healed
from unstuck.diagnose.idle import find_idle, suspects_idle
from unstuck.diagnose.joining import find_absent_nodes, find_unjoined, suspects_before_init
from unstuck.diagnose.launcher import find_lost_launcher
from unstuck.diagnose.mismatch import find_mismatches
from unstuck.diagnose.network import is_undecided
from unstuck.diagnose.patience import FLOOR, SUSPICION, patience
from unstuck.diagnose.report import write_verdict
from unstuck.diagnose.short import explain_short_timeout
from unstuck.diagnose.slow import find_slow
from unstuck.diagnose.stall import GRACE, explain_sink, has_lasted, lacks_recorder, lacks_stack
from unstuck.diagnose.standing import SILENT_AFTER, Job, Standing, has_ended, survey
from unstuck.diagnose.store import explain_lost_store, find_store_waits, in_store
from unstuck.diagnose.waits import Sink, SinkKind, find_sinks
from unstuck.model.evidence import EvidenceKind, EvidenceRequest
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause, Confidence, Diagnosis, StuckOperation

ROOT_AFTER = 0.25
"""The first death must be this old, so that the true root is among those seen."""
FOLLOWERS_AFTER = 1.5
"""How long to wait for a root while only its consequences are visible."""
EXIT_WITHIN = 0.5
"""How long the exit code of a rank that leaves is waited for; the interpreter needs 0.1 to 0.5."""
TOGETHER = 0.5
"""A fault whose limit is reached this much later than another one's is told with it."""
FRAME_OVERDUE = 1.5
"""Agents send a frame a second; after this long without one a node may be lost."""
LOST = (Cause.NODE_FAILURE, Cause.NETWORK_PARTITION)
"""What is told also while stalls are not judged, beside deaths."""
_MOST_STACKS = 64
_MOST_COMPARED = 3


def diagnose(snapshot: Snapshot) -> Diagnosis:
    """Judge a snapshot: give a verdict if something is wrong, and ask for missing evidence.

    Example:
        >>> diagnose(Snapshot(taken_at=0.0)).verdict is None
        True
    """
    if any(node.stopping for node in snapshot.nodes):
        return Diagnosis()
    job = survey(snapshot)
    deaths = find_deaths(job)
    known = find_lost_launcher(job, deaths, ROOT_AFTER)
    if known or (not deaths.roots and (known := find_healed(job))):
        return Diagnosis(write_verdict(snapshot, [known]))
    if deaths.roots or deaths.leavers or deaths.followers:
        findings = _judge_deaths(job, deaths)
        return Diagnosis(write_verdict(snapshot, findings) if findings else None)
    found = _judge_living(job)
    return _while_paused(found) if snapshot.controls.paused_left > 0 else found


def _judge_living(job: Job) -> Diagnosis:
    if findings := _unjoined(job):
        return Diagnosis(write_verdict(job.snapshot, findings))
    waits = _judge_waits(job)
    if waits.verdict is None and (found := find_slow(job) or find_idle(job)):
        return Diagnosis(write_verdict(job.snapshot, [found]), waits.requests)
    return waits


def _while_paused(found: Diagnosis) -> Diagnosis:
    """Whoever asked for a pause may stop ranks in a debugger, but loses no node on purpose."""
    lost = found.verdict is not None and found.verdict.cause in LOST
    return Diagnosis(found.verdict) if lost else Diagnosis()


def _unjoined(job: Job) -> list[Finding]:
    """Who has not come, once those who wait have done so for as long as the user wants."""
    least = job.snapshot.controls.patience
    found = find_absent_nodes(job) or find_unjoined(job)
    return [one for one in found if one.seconds >= least or one.confidence is Confidence.CERTAIN]


def _judge_deaths(job: Job, deaths: Deaths) -> list[Finding]:
    if deaths.oldest < ROOT_AFTER:
        return []
    if deaths.roots:
        explain = explain_abort if aborted_in_collective(deaths.roots[0]) else explain_roots
        return _mismatch_behind(job, deaths) or [explain(job, deaths)]
    if deaths.leavers:
        leaving = any(_is_leaving(death.state) for death in deaths.leavers)
        return [] if leaving else [explain_leavers(job, deaths)]
    if deaths.oldest < FOLLOWERS_AFTER or _node_may_be_lost(job):
        return []
    if known := explain_lost_store(job, deaths) or explain_short_timeout(job, deaths):
        return [_with_followers(known, deaths)]
    # The rank that complains first is seldom the one to blame: ask whom it waited for.
    limit = patience(job.snapshot)
    graph = build_graph(job, _fallen(deaths))
    sinks = [sink for sink in find_sinks(graph) if sink.kind is SinkKind.RANK]
    found = [f for sink in sinks for f in explain_sink(graph, sink, limit, fallen=True)]
    if not any(timed_out(death.state) for death in deaths.followers):
        # Nobody gave up, connections broke: who is only behind, or was ended later, broke none.
        found = [finding for finding in found if _is_silent(job, finding)]
    return [_with_followers(f, deaths) for f in found] or [explain_followers(job, deaths)]


def _is_silent(job: Job, finding: Finding) -> bool:
    return all(job.standing(one.rank) is Standing.SILENT for one in finding.culprits)


def _is_leaving(state: RankState) -> bool:
    """Tell whether its process is about to end: only then its exit code is known."""
    ending = state.phase == "exit" and not has_ended(state) and state.exit_asked is None
    return ending and state.stalled_for < EXIT_WITHIN


def _node_may_be_lost(job: Job) -> bool:
    """Tell whether a frame is overdue: until it comes, its ranks are known from the past only."""
    if any(is_undecided(job, host) for host in job.silent_for):
        return True
    return any(
        FRAME_OVERDUE < node.silent_for <= SILENT_AFTER
        for node in job.snapshot.nodes
        if not node.ended and not node.disconnected and node.host not in job.silent_for
    )


def _mismatch_behind(job: Job, deaths: Deaths) -> list[Finding]:
    """Find the wrong sizes on which a rank aborted: gloo ends the receiver of too much data."""
    if deaths.roots[0].signal != signal.SIGABRT:
        return []
    aborted = deaths.roots[0].state
    found = find_mismatches(build_graph(job, _furthest(deaths)), 0.0, aborted.rank)
    return [
        _with_followers(finding, deaths)
        for finding in found
        if finding.confidence is not Confidence.POSSIBLE  # equal sides: either may be wrong
        and finding.stuck is not None
        and _came_to(job, aborted, finding.stuck)
    ]


def _furthest(deaths: Deaths) -> list[int]:
    """Those whose recorder was read before they ended, in the last operation that any began."""
    last: dict[int, Head] = {}
    for death in deaths.followers:
        read = any(one.pending or one.recent for one in death.state.groups)
        if read and (head := last_words(death.state)):
            last[death.state.rank] = head
    most: dict[GroupKey, int] = {}
    for head in last.values():
        most[head.group] = max(head.number, most.get(head.group, 0))
    return [rank for rank, head in last.items() if head.number == most[head.group]]


def _came_to(job: Job, state: RankState, stuck: StuckOperation) -> bool:
    """Tell whether an operation is the next or the last of a rank.

    Its page may be one behind; on a busy machine more, but what others completed it had begun.
    """
    return any(
        one.name == stuck.group
        and stuck.number > one.completed
        and (
            one.enqueued + 1 >= stuck.number
            or all_have_begun(job, group_key(one), stuck.number - 1)
        )
        for one in state.groups
    )


def _fallen(deaths: Deaths) -> list[int]:
    return [death.state.rank for death in deaths.followers if tells_of_a_peer(death.state)]


def _with_followers(finding: Finding, deaths: Deaths) -> Finding:
    blamed = {one.rank for one in finding.culprits}
    victims = {
        *finding.victims,
        *(death.state.rank for death in (*deaths.roots, *deaths.followers)),
    } - blamed
    evidence = finding.evidence + followers_evidence(deaths.followers)
    return replace(finding, victims=tuple(sorted(victims)), evidence=evidence)


def _judge_waits(job: Job) -> Diagnosis:
    suspects = [s for s in job.live if s.in_flight and s.stalled_for >= SUSPICION]
    limit = patience(job.snapshot)
    if found := find_store_waits(job, limit) or find_barrier_waits(job, limit):
        return Diagnosis(write_verdict(job.snapshot, found))
    if not suspects:
        return Diagnosis(requests=_stacks_of(_suspects_without_operation(job)))
    graph = build_graph(job)
    sinks = find_sinks(graph)
    mismatches = find_mismatches(graph, SUSPICION)
    requests = _requests(graph, suspects, sinks, mismatches)
    findings = [found for found in mismatches if found.seconds >= min(limit, FLOOR)]
    if not findings:
        found = _explain_sinks(graph, sinks, limit)
        findings = [explain_apart(job, one) or one for one in found]
    verdict = write_verdict(job.snapshot, findings) if findings else None
    return Diagnosis(verdict, requests)


def _explain_sinks(graph: WaitGraph, sinks: tuple[Sink, ...], limit: float) -> list[Finding]:
    """Explain all sinks at once; for one that is about to reach its limit the others wait."""
    explained = [(sink, explain_sink(graph, sink, limit)) for sink in sinks]
    reached = [sink for sink, found in explained if found]
    early = [sink for sink in reached if has_lasted(graph.job, sink) < limit + GRACE]
    if len(reached) < len(sinks) and len(early) == len(reached):
        soon = max(SUSPICION, limit - TOGETHER)
        if any(not found and explain_sink(graph, sink, soon) for sink, found in explained):
            return []
    return [one for _, found in explained for one in found]


def _suspects_without_operation(job: Job) -> list[RankState]:
    """Where nothing is in flight (before init, in the store), only stacks show who waits."""
    inside = (*in_store(job), *in_barrier(job))
    if not any(state.stalled_for >= SUSPICION for state in inside):
        return suspects_before_init(job) or suspects_idle(job)
    return [s for s in job.live if s.stalled_for >= SUSPICION and lacks_stack(s)]


def _stacks_of(states: list[RankState]) -> tuple[EvidenceRequest, ...]:
    ranks = tuple(sorted(state.rank for state in states)[:_MOST_STACKS])
    return (EvidenceRequest(EvidenceKind.STACK, ranks),) if ranks else ()


def _requests(
    graph: WaitGraph,
    suspects: list[RankState],
    sinks: tuple[Sink, ...],
    mismatches: tuple[Finding, ...],
) -> tuple[EvidenceRequest, ...]:
    job = graph.job
    found: list[EvidenceRequest] = []
    if any(lacks_recorder(state) for state in suspects):
        ranks = tuple(sorted(state.rank for state in job.live if _wants_recorder(state)))
        found.append(EvidenceRequest(EvidenceKind.RECORDER, ranks))
    wanted = [state.rank for state in job.live if state.beat_age > SUSPICION and lacks_stack(state)]
    if not graph.heads:
        # No main thread is in an operation: other threads may be.
        wanted += [s.rank for s in (*suspects, *suspects_idle(job)) if lacks_stack(s)]
    for members in _asked_for_stacks(job, sinks, mismatches):
        wanted += [
            rank
            for rank in members
            if job.standing(rank) is Standing.LIVE and lacks_stack(job.states[rank])
        ]
    if stacks := tuple(sorted(dict.fromkeys(wanted[:_MOST_STACKS]))):
        found.append(EvidenceRequest(EvidenceKind.STACK, stacks))
    return tuple(found)


def _asked_for_stacks(
    job: Job, sinks: tuple[Sink, ...], mismatches: tuple[Finding, ...]
) -> list[tuple[int, ...]]:
    """Who does not come, who runs something else, and some that wait where it matters where."""
    asked = [sink.members for sink in sinks if sink.kind is not SinkKind.GROUP]
    asked += [
        sink.stuck.waiting[:_MOST_COMPARED]
        for sink in sinks
        if any(rank in job.states and job.states[rank].loops == () for rank in sink.members)
    ]
    asked += [tuple(one.rank for one in finding.culprits) for finding in mismatches]
    return asked + [finding.victims[:_MOST_COMPARED] for finding in mismatches]


def _wants_recorder(state: RankState) -> bool:
    # A moving rank is never up to date: once a second is enough for it.
    return state.recorder_age is None or state.recorder_age > max(state.stalled_for, SUSPICION)
