"""Ranks that others wait for and that cannot arrive: stopped, unseen, gone or never there."""

from msgspec.structs import replace

from unstuck.diagnose.finding import Finding, blame, culprit, process_evidence, stack_evidence
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.text import ranks_text
from unstuck.model.doing import Absent, Ended, Ending, Hold, NeverSeen, Stopped
from unstuck.model.rank import ProcessState, RankState
from unstuck.model.verdict import Alternative, Basis, Cause, Confidence, Evidence, Role

_MOST_ITEMS = 5
_HOLDS = {ProcessState.TRACED: Hold.DEBUGGER, ProcessState.FROZEN: Hold.FREEZER}


def explain_stopped(states: list[RankState]) -> Finding:
    """Say that processes are stopped by a signal or held by a debugger."""
    return Finding(
        cause=Cause.PROCESS_STOPPED,
        confidence=Confidence.CERTAIN,
        because="the kernel reports the process as stopped",
        culprits=tuple(
            culprit(state, Stopped(_HOLDS.get(state.process.state, Hold.SIGNAL)), state.stalled_for)
            for state in states
        ),
        evidence=tuple(process_evidence(state) for state in states[:_MOST_ITEMS]),
    )


def explain_unseen(job: Job, ranks: list[int]) -> Finding:
    """Say that the others wait for ranks that cannot be observed; nobody is accused."""
    reasons = sorted({_why_unseen(job, rank) for rank in ranks})
    return Finding(
        cause=Cause.UNKNOWN,
        confidence=Confidence.POSSIBLE,
        because=f"{ranks_text(ranks)} cannot be observed: {'; '.join(reasons)}",
        culprits=(),
        evidence=tuple(Evidence(ranks_text(ranks), reason) for reason in reasons[:_MOST_ITEMS]),
        summary=f"The job makes no progress, and {ranks_text(ranks)}, for which the others wait, "
        "cannot be observed from here.",
        alternatives=(
            Alternative(Cause.TRANSPORT_STALL, f"take stacks of {ranks_text(ranks)} by hand"),
        ),
    )


def explain_missing(job: Job, ranks: list[int], seconds: float) -> Finding:
    """Say that ranks of this job were never seen."""
    world = job.snapshot.world_size
    return Finding(
        cause=Cause.NEVER_JOINED,
        basis=Basis.TIME,
        confidence=Confidence.POSSIBLE,
        because=f"{len(job.states)} of {world} ranks were seen; a rank that runs without the "
        "probe would look the same",
        culprits=tuple(blame(rank, "", NeverSeen(), seconds=seconds) for rank in ranks),
        seconds=seconds,
        evidence=(Evidence("hub", f"{ranks_text(ranks)} of {world} never reported", Role.ROOT),),
        alternatives=(
            Alternative(
                Cause.NETWORK_MISCONFIGURATION,
                "check on the missing hosts that the launcher runs and can reach "
                "MASTER_ADDR:MASTER_PORT",
            ),
        ),
    )


def explain_twice(job: Job, missing: list[int], seconds: float) -> Finding:
    """Say that two processes are the same rank, and that another rank is there not at all."""
    twice = ranks_text(job.twice)
    found = explain_missing(job, missing, seconds)
    return replace(
        found,
        confidence=Confidence.CERTAIN,
        basis=Basis.PROOF,
        because=f"two processes say that they are {twice}, and {ranks_text(missing)} never "
        "reported: the numbers are set wrongly, in a wrapper script or in the script itself",
        alternatives=(),
    )


def explain_absentees(states: list[RankState]) -> Finding:
    """Say that ranks ended successfully although others wait for a message from them."""
    return Finding(
        cause=Cause.RANK_LEFT_EARLY,
        confidence=Confidence.LIKELY,
        because="the others wait in an operation that it never started",
        culprits=tuple(
            culprit(state, Ended(Ending.EARLY), state.process.gone_for or state.stalled_for)
            for state in states
        ),
        evidence=tuple(process_evidence(state) for state in states[:_MOST_ITEMS]),
        alternatives=(Alternative(Cause.UNEVEN_WORK, "compare the number of batches per rank"),),
    )


def explain_ended_behind(states: list[RankState]) -> Finding:
    """Say that ranks had not arrived when the others gave up, and were ended afterwards."""
    return Finding(
        cause=Cause.BUSY_ELSEWHERE,
        confidence=Confidence.POSSIBLE,
        because="the others gave up waiting for it, and it was ended afterwards; what it was "
        "doing is not known",
        culprits=tuple(
            culprit(state, Absent(gave_up=True), state.process.gone_for or state.stalled_for)
            for state in states
        ),
        evidence=tuple(item for state in states[:_MOST_ITEMS] for item in stack_evidence(state)),
        alternatives=(
            Alternative(Cause.HOST_DEADLOCK, "run again and take its stack before the timeout"),
            Alternative(Cause.TIMEOUT_TOO_SHORT, "compare its usual step time with the timeout"),
        ),
    )


def _why_unseen(job: Job, rank: int) -> str:
    state = job.states.get(rank)
    if state is None:
        return "it never reported"
    return state.unobserved or f"the agent on {state.host} is gone"
