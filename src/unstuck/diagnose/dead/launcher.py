"""The launch command itself was killed: its ranks ended with it, through no fault of their own."""

from unstuck.diagnose.dead.crash import followers_evidence
from unstuck.diagnose.dead.deaths import Deaths
from unstuck.diagnose.finding import Finding, culprit
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.text import ranks_text, seconds_text, signal_name
from unstuck.diagnose.thresholds import SIMULTANEOUS
from unstuck.model.doing import LostLauncher
from unstuck.model.snapshot import NodeState
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence, Role


def find_lost_launcher(job: Job, deaths: Deaths, least: float) -> Finding | None:
    """Say that a launcher was killed at least `least` seconds ago, before any rank had died.

    Only an end by a signal counts: a launcher that ends with an exit code does so because of a
    rank, or on purpose. A command without ranks is not a training job.
    """
    if not job.states:
        return None
    killed = [node for node in job.snapshot.nodes if (node.launcher_exit or 0) < 0]
    first = max(killed, key=lambda node: (node.launcher_gone_for, node.node), default=None)
    if first is None or first.launcher_gone_for < least or _came_later(first, deaths):
        return None
    return _explain(job, deaths, first)


def _came_later(node: NodeState, deaths: Deaths) -> bool:
    before = node.launcher_gone_for + SIMULTANEOUS
    return any(death.age > before for death in (*deaths.roots, *deaths.leavers))


def _explain(job: Job, deaths: Deaths, node: NodeState) -> Finding:
    seconds, name = node.launcher_gone_for, signal_name(-(node.launcher_exit or 0))
    here = [state for state in job.states.values() if state.host == node.host]
    ranks = {state.rank for state in here}
    with_it = f", and its {ranks_text(ranks)} ended with it" if ranks else ""
    return Finding(
        cause=Cause.PROCESS_CRASH,
        confidence=Confidence.CERTAIN,
        because=f"the launch command on {node.host} was killed by {name} before any rank ended",
        culprits=tuple(culprit(state, LostLauncher(name), seconds) for state in here),
        victims=tuple(rank for rank in job.states if rank not in ranks),
        seconds=seconds,
        evidence=(
            Evidence(
                f"{node.host}: launch command",
                f"killed by {name} {seconds_text(seconds)} ago",
                Role.ROOT,
            ),
            *followers_evidence((*deaths.roots, *deaths.followers)),
        ),
        alternatives=(
            Alternative(
                Cause.OUT_OF_MEMORY,
                f"look for an out-of-memory kill in the kernel log of {node.host} (dmesg)",
            ),
        ),
        summary=f"The launcher on {node.host} was killed by {name}{with_it}.",
    )
