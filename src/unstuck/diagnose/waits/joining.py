"""Ranks and nodes that the others wait for before the first collective.

How long is too long is learned here too: the ranks that have joined show how long this job needs
from the start of a process to `init_process_group` (imports on a slow disk, reading a
configuration). A rank that sleeps or waits instead is late once it has taken twice that and the
others have waited for 5 s; one that works, three times and 20 s (preparing data before the start
is what we advise); one that still imports, or was never seen, a minute.
"""

from collections import defaultdict

from msgspec.structs import replace

from unstuck.diagnose.case import Case
from unstuck.diagnose.dead.deaths import left_in_order
from unstuck.diagnose.finding import Finding, culprit, process_evidence, with_activity
from unstuck.diagnose.job.standing import Job, Standing
from unstuck.diagnose.network.lost_hosts import explain_silent
from unstuck.diagnose.stuck.absent import explain_missing, explain_stopped, explain_twice
from unstuck.diagnose.stuck.hold_up import basis_of, because_of, hold_up_of
from unstuck.diagnose.stuck.host import Doing, explain_rank
from unstuck.diagnose.text import ranks_text, seconds_text
from unstuck.diagnose.thresholds import (
    BUSY_CPU,
    JOIN_WITHIN,
    LATE_IF_IDLE,
    START_UP,
    SURE_AFTER,
    TIMES,
)
from unstuck.diagnose.waits.meetings import MOST_UNSEEN
from unstuck.diagnose.waits.sinks import Sink, SinkKind
from unstuck.model.doing import Before, Ended, Ending, NotJoined, Unclear
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Basis, Cause, Confidence, Evidence, Role

_JOINED = ("init", "run")
_MOST_ITEMS = 5


def explain_joining(job: Job, sink: Sink) -> list[Finding]:
    """Say who keeps the others in `init_process_group`, per cause; nothing while it is too early.

    What the user asked for (`unstuck ctl set patience`) holds here too, unless it is certain.
    """
    waiting = [job.states[rank] for rank in sink.stuck.waiting]
    seconds = max(state.stalled_for for state in waiting)
    if seconds < SURE_AFTER:
        return []
    found = _explain_absent(job, sink, seconds) or _all_there(job, waiting, seconds)
    least = job.snapshot.controls.patience
    return [
        one
        for one in found
        if seconds >= least or one.confidence is Confidence.CERTAIN or one.hold_up
    ]


def _explain_absent(job: Job, sink: Sink, seconds: float) -> list[Finding]:
    by_standing: dict[Standing, list[int]] = defaultdict(list)
    for rank in sink.members if sink.kind is SinkKind.RANK else ():
        by_standing[job.standing(rank)].append(rank)
    states = {
        one: [job.states[r] for r in ranks if r in job.states] for one, ranks in by_standing.items()
    }
    found: list[Finding] = []
    if stopped := states.get(Standing.STOPPED):
        found.append(explain_stopped(stopped))
    if silent := states.get(Standing.SILENT):
        found += explain_silent(job, silent)
    if left := [s for s in states.get(Standing.GONE, ()) if left_in_order(s)]:
        found.append(_ended_before(left, seconds))
    # Ranks that are out of it already have joined too: pages of one moment differ by a beat.
    usual = max(s.age - s.stalled_for for s in job.live if s.phase in _JOINED)
    living = states.get(Standing.LIVE, ())
    if late := [s for s in living if _is_late(s, min(seconds, s.stalled_for), usual)]:
        found += _explain_late(job, late[:MOST_UNSEEN], seconds, usual)
    if missing := by_standing[Standing.MISSING]:
        if job.twice:
            found.append(explain_twice(job, missing, seconds))
        elif seconds >= JOIN_WITHIN:
            found.append(explain_missing(job, missing, seconds))
    return found


def is_dated(state: RankState) -> bool:
    """Tell whether a rank that has not joined has a stack too old to go by.

    Nothing else shows that it moves: a stack from an import says little half a minute later.
    """
    if not state.stack:
        return False
    return state.stack_age is None or state.stack_age > state.stalled_for / 2


def _ended_before(states: list[RankState], seconds: float) -> Finding:
    return Finding(
        cause=Cause.NEVER_JOINED,
        confidence=Confidence.CERTAIN,
        because="its process ended without an error and without calling init_process_group, "
        "and the others wait for it there",
        culprits=tuple(
            culprit(state, Ended(Ending.UNJOINED), state.process.gone_for or seconds)
            for state in states
        ),
        evidence=tuple(process_evidence(state) for state in states[:_MOST_ITEMS]),
    )


def _is_late(state: RankState, waited: float, usual: float) -> bool:
    if state.section_left is not None:
        return state.section_left <= 0 and waited >= SURE_AFTER
    age = max(state.age, state.stalled_for)
    if state.phase == "born" or any("importlib" in line.file for line in state.stack):
        return waited >= JOIN_WITHIN and age >= TIMES * usual
    if state.process.cpu >= BUSY_CPU or state.process.state in ("R", "D"):
        return waited >= START_UP and age >= TIMES * usual
    return waited >= LATE_IF_IDLE and age >= 2 * usual


def _explain_late(job: Job, states: list[RankState], seconds: float, usual: float) -> list[Finding]:
    """Divide those that are late into the ones that are stuck and those that may still join."""
    judged: dict[Basis | None, list[tuple[RankState, Doing]]] = defaultdict(list)
    for state in states:
        doing, waited = explain_rank(state), min(seconds, state.stalled_for)
        basis = basis_of(job, state, doing.culprit, doing.proof, waited)
        if state.phase == "born":
            # Without a probe nothing shows its signs of life.
            basis = basis or Basis.TIME
        because = because_of(basis, doing.proof, state, waited) if basis else ""
        judged[basis].append((state, replace(doing, because=doing.because + because)))
    return [_late(job, basis, late, seconds, usual) for basis, late in judged.items()]


def _late(
    job: Job,
    basis: Basis | None,
    late: list[tuple[RankState, Doing]],
    seconds: float,
    usual: float,
) -> Finding:
    came = f"the others called init_process_group within {seconds_text(usual)} of their start"
    doings = [doing for _, doing in late]
    state, first = late[0]
    return Finding(
        cause=Cause.NEVER_JOINED,
        confidence=Confidence.LIKELY,
        because=f"{came}; {first.because}",
        culprits=tuple(
            with_activity(one.culprit, NotJoined(one.culprit.activity or Unclear(), _before(state)))
            for state, one in late
        ),
        seconds=seconds,
        evidence=tuple(item for one in doings[:_MOST_ITEMS] for item in one.evidence),
        alternatives=_what_instead(doings),
        basis=basis or Basis.TIME,
        hold_up=None if basis else hold_up_of(job, state, first.culprit, (), ""),
    )


def _before(state: RankState) -> Before:
    return Before.IMPORT if state.phase == "born" else Before.INIT


def _what_instead(doings: list[Doing]) -> tuple[Alternative, ...]:
    """A rank that works or waits before it joins may still arrive: its own cause says when."""
    instead = [
        Alternative(
            one.cause, "take its stack again some seconds later: if it moved, it will arrive"
        )
        for one in doings
        if one.cause not in (Cause.UNKNOWN, Cause.STORE_LOST)
    ]
    return tuple(dict.fromkeys([*instead, *(a for one in doings for a in one.alternatives)]))


def _all_there(job: Job, waiting: list[RankState], seconds: float) -> list[Finding]:
    """Every rank has called init and some do not return: nobody is missing, something is cut.

    A rank that is connected to all is out of it, and waits for the others in its first operation.
    """
    world = job.snapshot.world_size
    out = [state for state in job.live if state.phase == "run"]
    enough = START_UP if any(state.in_flight for state in out) else JOIN_WITHIN
    come = len(waiting) + len(out)
    if come < world or not world or min(s.stalled_for for s in waiting) < enough:
        return []
    these = ranks_text(state.rank for state in waiting)
    hosts = ", ".join(sorted({state.host for state in waiting})[:_MOST_ITEMS])
    verb = "is" if len(waiting) == 1 else "are"
    inside = f"{these.capitalize()} ({hosts})" if out else f"All {world} ranks"
    return [
        Finding(
            cause=Cause.NETWORK_MISCONFIGURATION,
            confidence=Confidence.POSSIBLE,
            because=f"all {world} ranks called init_process_group, and {these} did not "
            "return from it; no process is missing or stopped",
            culprits=(),
            summary=f"{inside} {verb} in init_process_group and it does not complete"
            + ("; the others are through it." if out else "."),
            evidence=(Evidence("hub", f"{these} in it for {seconds_text(seconds)}", Role.ROOT),),
            alternatives=(
                Alternative(
                    Cause.NETWORK_PARTITION,
                    "connect from each host to each other one on a free high port: a firewall "
                    "that drops the random ports of gloo or NCCL looks the same",
                ),
                Alternative(Cause.STORE_LOST, "see whether MASTER_ADDR:MASTER_PORT answers"),
            ),
        )
    ]


def nodes_absent(case: Case) -> list[Finding] | None:
    """Say that launchers wait at the rendezvous for nodes that have not arrived.

    No rank exists yet then; all that can be seen is how many launchers run.
    """
    job = case.job
    nodes = [node for node in job.snapshot.nodes if not node.ended]
    wanted = max((node.nodes_wanted for node in nodes), default=0)
    seconds = min((node.empty_for for node in nodes), default=0.0)
    if job.states or wanted < 2 or seconds < max(JOIN_WITHIN, job.snapshot.controls.patience):
        return None
    here = ", ".join(sorted(node.host for node in nodes))
    told = f"{len(nodes)} of {wanted} nodes have arrived ({here})"
    complete = len(nodes) >= wanted
    return [
        Finding(
            cause=Cause.NETWORK_MISCONFIGURATION if complete else Cause.NEVER_JOINED,
            confidence=Confidence.POSSIBLE,
            because=f"{told}, and no launcher has started a rank for {seconds_text(seconds)}"
            + ("" if complete else "; a node that runs without unstuck would look the same"),
            culprits=(),
            seconds=seconds,
            summary=f"The job has not started: {told}, and the launchers wait at the rendezvous.",
            evidence=(Evidence("hub", told, Role.ROOT),),
            alternatives=_absent_node_alternatives(complete),
        )
    ]


def _absent_node_alternatives(complete: bool) -> tuple[Alternative, ...]:
    reach = "on each node, connect to the rendezvous endpoint by hand: nc -vz HOST PORT"
    if complete:
        return (Alternative(Cause.NETWORK_PARTITION, reach),)
    return (Alternative(Cause.NETWORK_MISCONFIGURATION, reach),)
