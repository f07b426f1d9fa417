"""Deaths: which rule of the ladder speaks, and how long it waits for the true root to be seen."""

import signal

from msgspec.structs import replace

from unstuck.diagnose.case import Case
from unstuck.diagnose.dead.crash import (
    explain_abort,
    explain_followers,
    explain_leavers,
    explain_roots,
    followers_evidence,
)
from unstuck.diagnose.dead.deaths import (
    Deaths,
    aborted_in_collective,
    tells_of_a_peer,
    timed_out,
)
from unstuck.diagnose.dead.launcher import find_lost_launcher
from unstuck.diagnose.dead.short_timeout import explain_short_timeout
from unstuck.diagnose.finding import Finding
from unstuck.diagnose.job.standing import Job, Standing, has_ended
from unstuck.diagnose.network.lost_hosts import is_undecided
from unstuck.diagnose.thresholds import (
    EXIT_WITHIN,
    FOLLOWERS_AFTER,
    ROOT_AFTER,
)
from unstuck.diagnose.waits.graph import build_graph
from unstuck.diagnose.waits.mismatch import find_mismatches
from unstuck.diagnose.waits.operations import (
    GroupKey,
    Head,
    all_have_begun,
    group_key,
    last_words,
)
from unstuck.diagnose.waits.sinks import SinkKind, find_sinks
from unstuck.diagnose.waits.stall import explain_sink
from unstuck.diagnose.waits.store import explain_lost_store
from unstuck.model.liveness import is_late
from unstuck.model.rank import RankState
from unstuck.model.verdict import Confidence, StuckOperation


def is_being_stopped(case: Case) -> list[Finding] | None:
    """Say nothing of a job that somebody is ending."""
    return [] if any(node.stopping for node in case.job.snapshot.nodes) else None


def launcher_killed(case: Case) -> list[Finding] | None:
    """Say that the launch command itself was killed, and its ranks with it."""
    found = find_lost_launcher(case.job, case.deaths, ROOT_AFTER)
    return [found] if found else None


def rank_died(case: Case) -> list[Finding] | None:
    """Say why the first rank died."""
    deaths = case.deaths
    if not deaths.roots:
        return None
    if deaths.oldest < ROOT_AFTER:
        return []
    explain = explain_abort if aborted_in_collective(deaths.roots[0]) else explain_roots
    return _mismatch_behind(case.job, deaths) or [explain(case.job, deaths)]


def rank_left(case: Case) -> list[Finding] | None:
    """Say that ranks ended in order while others still needed them."""
    deaths = case.deaths
    if not deaths.leavers:
        return None
    if deaths.oldest < ROOT_AFTER or any(_is_leaving(death.state) for death in deaths.leavers):
        return []
    return [explain_leavers(case.job, deaths)]


def only_followers(case: Case) -> list[Finding] | None:
    """Find the rank behind failures that only another rank's end or delay causes."""
    job, deaths = case.job, case.deaths
    if not deaths.followers:
        return None
    if deaths.oldest < FOLLOWERS_AFTER or _node_may_be_lost(job):
        return []
    if known := explain_lost_store(job, deaths) or explain_short_timeout(job, deaths):
        return [_with_followers(known, deaths)]
    # The rank that complains first is seldom the one to blame: ask whom it waited for.
    graph = build_graph(job, _fallen(deaths))
    sinks = [sink for sink in find_sinks(graph) if sink.kind is SinkKind.RANK]
    found = [f for sink in sinks for f in explain_sink(graph, sink, case.limit, fallen=True)]
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
    others = (node for node in job.snapshot.nodes if node.host not in job.silent_for)
    return any(is_late(node) for node in others)


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
