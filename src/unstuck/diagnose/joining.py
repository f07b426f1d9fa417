"""Ranks and nodes that the others wait for before the first collective.

How long is too long is learned here too: the ranks that have come say how long this job needs
from the start of a process to `init_process_group` (imports on a slow disk, reading a
configuration). A rank that sleeps or waits instead is late once it has taken twice that and the
others have waited for 5 s; one that works, three times and 20 s (preparing data before the start
is what we advise); one that still imports, or was never seen, a minute.
"""

from collections import defaultdict

from msgspec.structs import replace

from unstuck.diagnose.blocked import BUSY_CPU
from unstuck.diagnose.deaths import left_in_order
from unstuck.diagnose.finding import Finding, culprit, process_evidence
from unstuck.diagnose.host import Doing, explain_rank
from unstuck.diagnose.network import explain_silent
from unstuck.diagnose.patience import START_UP, TIMES
from unstuck.diagnose.silence import explain_missing, explain_stopped
from unstuck.diagnose.stall import JOIN_WITHIN, SURE_AFTER
from unstuck.diagnose.standing import Job, Standing
from unstuck.diagnose.words import ranks_text, seconds_text
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence

QUIET = 5.0
"""For a rank that neither works nor imports anything before it joins."""
_BEFORE = ("born", "start")
_COME = ("init", "run")
_MOST_NAMED = 64
_MOST_ITEMS = 5


def find_unjoined(job: Job) -> list[Finding]:
    """Find who keeps the others in `init_process_group`; one finding a cause."""
    waiting = [state for state in job.live if state.phase == "init"]
    seconds = max((state.stalled_for for state in waiting), default=0.0)
    if seconds < SURE_AFTER:
        return []
    # Ranks that are out of it already have come too: pages of one moment differ by a beat.
    usual = max(state.age - state.stalled_for for state in job.live if state.phase in _COME)
    found = [
        *_unable(job, seconds),
        *_late(job, seconds, usual),
        *_missing(job, seconds),
    ] or _all_there(job, waiting, seconds)
    return [_complete(finding, waiting, seconds) for finding in found]


def suspects_before_init(job: Job) -> list[RankState]:
    """List the living ranks of which a new stack would say why the others wait in init."""
    inside = (state.stalled_for for state in job.states.values() if state.phase == "init")
    if max(inside, default=0.0) < SURE_AFTER:
        return []
    return [state for state in _absent(job) if state.stack and _is_dated(state)]


def _is_dated(state: RankState) -> bool:
    """Tell whether a stack is too old to go by: nothing else shows that such a rank moves.

    One that was taken during an import says nothing of where the rank is half a minute later.
    """
    return state.stack_age is None or state.stack_age > state.stalled_for / 2


def _absent(job: Job) -> list[RankState]:
    return [state for state in job.live if state.phase in _BEFORE]


def _unable(job: Job, seconds: float) -> list[Finding]:
    """Ranks that cannot come: stopped, on a silent host, or ended before they joined."""
    by_standing: dict[Standing, list[RankState]] = defaultdict(list)
    for rank, state in job.states.items():
        if state.phase in (*_BEFORE, "init", "exit"):
            by_standing[job.standing(rank)].append(state)
    found: list[Finding] = []
    if stopped := by_standing[Standing.STOPPED]:
        found.append(explain_stopped(stopped))
    if silent := by_standing[Standing.SILENT]:
        found += explain_silent(job, silent)
    left = [s for s in by_standing[Standing.GONE] if left_in_order(s) and not s.groups]
    if left:
        found.append(_ended_before(left, seconds))
    return found


def _ended_before(states: list[RankState], seconds: float) -> Finding:
    return Finding(
        cause=Cause.NEVER_JOINED,
        confidence=Confidence.CERTAIN,
        because="its process ended without an error and without calling init_process_group, "
        "and the others wait for it there",
        culprits=tuple(
            culprit(
                state,
                "ended successfully without joining the process group",
                state.process.gone_for or seconds,
            )
            for state in states
        ),
        evidence=tuple(process_evidence(state) for state in states[:_MOST_ITEMS]),
    )


def _late(job: Job, seconds: float, usual: float) -> list[Finding]:
    late = [s for s in _absent(job) if _is_late(s, min(seconds, s.stalled_for), usual)]
    return [_explain_late(late[:_MOST_NAMED], seconds, usual)] if late else []


def _is_late(state: RankState, waited: float, usual: float) -> bool:
    if state.section_left is not None:
        return state.section_left <= 0 and waited >= SURE_AFTER
    age = max(state.age, state.stalled_for)
    if state.phase == "born" or any("importlib" in line.file for line in state.stack):
        return waited >= JOIN_WITHIN and age >= TIMES * usual
    if state.process.cpu >= BUSY_CPU or state.process.state in ("R", "D"):
        return waited >= START_UP and age >= TIMES * usual
    return waited >= QUIET and age >= 2 * usual


def _explain_late(states: list[RankState], seconds: float, usual: float) -> Finding:
    doings = [explain_rank(state) for state in states]
    came = f"the others came to init_process_group within {seconds_text(usual)} of their start"
    return Finding(
        cause=Cause.NEVER_JOINED,
        confidence=Confidence.LIKELY,
        because=f"{came}; {doings[0].because}",
        culprits=tuple(
            replace(one.culprit, doing=_late_phrase(state, one))
            for state, one in zip(states, doings, strict=True)
        ),
        seconds=seconds,
        evidence=tuple(item for one in doings[:_MOST_ITEMS] for item in one.evidence),
        alternatives=_what_instead(doings),
    )


def _late_phrase(state: RankState, doing: Doing) -> str:
    if state.phase == "born":
        return f"has not imported torch yet: it {doing.culprit.doing}"
    return f"has not called init_process_group: it {doing.culprit.doing}"


def _what_instead(doings: list[Doing]) -> tuple[Alternative, ...]:
    """A rank that works or waits before it joins may still come: its own cause says when."""
    told = [
        Alternative(one.cause, "take its stack again some seconds later: if it moves, it will come")
        for one in doings
        if one.cause not in (Cause.UNKNOWN, Cause.STORE_LOST)
    ]
    return tuple(dict.fromkeys([*told, *(a for one in doings for a in one.alternatives)]))


def _missing(job: Job, seconds: float) -> list[Finding]:
    missing = [rank for rank in range(job.snapshot.world_size) if rank not in job.states]
    if not missing or seconds < JOIN_WITHIN:
        return []
    return [explain_missing(job, missing[:_MOST_NAMED], seconds)]


def _all_there(job: Job, waiting: list[RankState], seconds: float) -> list[Finding]:
    """Every rank has called init and some do not come out: nobody is missing, something is cut.

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
            because=f"all {world} ranks called init_process_group, and {these} did not come "
            "out of it; no process is missing or stopped",
            culprits=(),
            summary=f"{inside} {verb} in init_process_group and it does not complete"
            + ("; the others are through it." if out else "."),
            evidence=(Evidence("hub", f"{these} in it for {seconds_text(seconds)}", "root"),),
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


def _complete(finding: Finding, waiting: list[RankState], seconds: float) -> Finding:
    blamed = {one.rank for one in finding.culprits}
    victims = tuple(sorted(state.rank for state in waiting if state.rank not in blamed))
    chain: tuple[str, ...] = ()
    if victims and blamed:
        verb = "waits" if len(victims) == 1 else "wait"
        text = f"{ranks_text(victims)} {verb} in init_process_group for {ranks_text(blamed)}"
        chain = (text,)
    seconds = max(seconds, finding.seconds)
    return replace(finding, victims=victims, seconds=seconds, chain=chain)


def find_absent_nodes(job: Job) -> list[Finding]:
    """Find that launchers wait at the rendezvous for nodes that have not come.

    No rank exists yet then; all that can be seen is how many launchers run.
    """
    nodes = [node for node in job.snapshot.nodes if not node.ended]
    wanted = max((node.nodes_wanted for node in nodes), default=0)
    seconds = min((node.empty_for for node in nodes), default=0.0)
    if job.states or wanted < 2 or seconds < JOIN_WITHIN:
        return []
    here = ", ".join(sorted(node.host for node in nodes))
    told = f"{len(nodes)} of {wanted} nodes have come ({here})"
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
            evidence=(Evidence("hub", told, "root"),),
            alternatives=_absent_node_alternatives(complete),
        )
    ]


def _absent_node_alternatives(complete: bool) -> tuple[Alternative, ...]:
    reach = "on each node, connect to the rendezvous endpoint by hand: nc -vz HOST PORT"
    if complete:
        return (Alternative(Cause.NETWORK_PARTITION, reach),)
    return (Alternative(Cause.NETWORK_MISCONFIGURATION, reach),)
