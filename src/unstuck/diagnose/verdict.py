"""The entry point: a snapshot in, a verdict or the wish for more evidence out."""

import signal

from msgspec.structs import replace

from unstuck.diagnose.crash import (
    explain_followers,
    explain_leavers,
    explain_roots,
    followers_evidence,
)
from unstuck.diagnose.deaths import Deaths, find_deaths, tells_of_a_peer, timed_out
from unstuck.diagnose.finding import Finding
from unstuck.diagnose.graph import build_graph
from unstuck.diagnose.joining import find_unjoined
from unstuck.diagnose.mismatch import find_mismatches
from unstuck.diagnose.patience import FLOOR, SUSPICION, patience
from unstuck.diagnose.report import write_verdict
from unstuck.diagnose.stall import explain_sink, lacks_recorder, lacks_stack
from unstuck.diagnose.standing import SILENT_AFTER, Job, Standing, survey
from unstuck.diagnose.waits import Sink, SinkKind, find_sinks
from unstuck.model.evidence import EvidenceKind, EvidenceRequest
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Diagnosis, StuckOperation

ROOT_AFTER = 0.25
"""The first death must be this old, so that the true root is among those seen."""
FOLLOWERS_AFTER = 1.5
"""How long to wait for a root while only its consequences are visible."""
FRAME_OVERDUE = 1.5
"""Agents send a frame a second; after this long without one a node may be lost."""
_MOST_STACKS = 64


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
    if deaths.roots or deaths.leavers or deaths.followers:
        findings = _judge_deaths(job, deaths)
        return Diagnosis(write_verdict(snapshot, findings) if findings else None)
    if unjoined := find_unjoined(job):
        return Diagnosis(write_verdict(snapshot, [unjoined]))
    return _judge_waits(job)


def _judge_deaths(job: Job, deaths: Deaths) -> list[Finding]:
    if deaths.oldest < ROOT_AFTER:
        return []
    if deaths.roots:
        return _mismatch_behind(job, deaths) or [explain_roots(job, deaths)]
    if deaths.leavers:
        return [explain_leavers(deaths)]
    if deaths.oldest < FOLLOWERS_AFTER or _node_may_be_lost(job):
        return []
    # The rank that complains first is seldom the one to blame: ask whom it waited for.
    limit = patience(job.snapshot)
    graph = build_graph(job, _fallen(deaths))
    sinks = [sink for sink in find_sinks(graph) if sink.kind is SinkKind.RANK]
    found = [f for sink in sinks for f in explain_sink(job, sink, limit, fallen=True)]
    if not any(timed_out(death.state) for death in deaths.followers):
        # Nobody gave up, connections broke: who is only behind, or was ended later, broke none.
        found = [finding for finding in found if _is_silent(job, finding)]
    return [_with_followers(f, deaths) for f in found] or [explain_followers(job, deaths)]


def _is_silent(job: Job, finding: Finding) -> bool:
    return all(job.standing(one.rank) is Standing.SILENT for one in finding.culprits)


def _node_may_be_lost(job: Job) -> bool:
    """Tell whether a frame is overdue: until it comes, its ranks are known from the past only."""
    return any(
        FRAME_OVERDUE < node.silent_for <= SILENT_AFTER
        for node in job.snapshot.nodes
        if not node.ended and not node.disconnected
    )


def _mismatch_behind(job: Job, deaths: Deaths) -> list[Finding]:
    """Find the wrong sizes on which a rank aborted: gloo ends the receiver of too much data."""
    if deaths.roots[0].signal != signal.SIGABRT:
        return []
    found = find_mismatches(build_graph(job, _fallen(deaths)), 0.0)
    aborted = deaths.roots[0].state
    return [
        _with_followers(finding, deaths)
        for finding in found
        if finding.stuck is not None and _has_begun(aborted, finding.stuck)
    ]


def _has_begun(state: RankState, stuck: StuckOperation) -> bool:
    return any(
        one.name == stuck.group and one.enqueued >= stuck.number > one.completed
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
    suspects = [state for state in job.states.values() if _is_suspect(job, state)]
    if not suspects:
        return Diagnosis()
    limit = patience(job.snapshot)
    graph = build_graph(job)
    sinks = find_sinks(graph)
    requests = _requests(job, suspects, sinks)
    findings = list(find_mismatches(graph, min(limit, FLOOR)))
    if not findings:
        findings = [found for sink in sinks for found in explain_sink(job, sink, limit)]
    verdict = write_verdict(job.snapshot, findings) if findings else None
    return Diagnosis(verdict, requests)


def _is_suspect(job: Job, state: RankState) -> bool:
    if not state.in_flight or state.stalled_for < SUSPICION:
        return False
    return job.standings[state.rank] is Standing.LIVE


def _requests(
    job: Job, suspects: list[RankState], sinks: tuple[Sink, ...]
) -> tuple[EvidenceRequest, ...]:
    live = [s for s in job.states.values() if job.standings[s.rank] is Standing.LIVE]
    found: list[EvidenceRequest] = []
    if any(lacks_recorder(state) for state in suspects):
        ranks = tuple(sorted(state.rank for state in live if _wants_recorder(state)))
        found.append(EvidenceRequest(EvidenceKind.RECORDER, ranks))
    wanted = [state.rank for state in live if state.beat_age > SUSPICION and lacks_stack(state)]
    for sink in sinks:
        if sink.kind is not SinkKind.GROUP:
            wanted += [
                rank
                for rank in sink.members
                if job.standing(rank) is Standing.LIVE and lacks_stack(job.states[rank])
            ]
    if stacks := tuple(sorted(dict.fromkeys(wanted[:_MOST_STACKS]))):
        found.append(EvidenceRequest(EvidenceKind.STACK, stacks))
    return tuple(found)


def _wants_recorder(state: RankState) -> bool:
    # A moving rank is never up to date: once a second is enough for it.
    return state.recorder_age is None or state.recorder_age > max(state.stalled_for, SUSPICION)
