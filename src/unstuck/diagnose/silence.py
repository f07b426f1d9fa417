"""Ranks that others wait for and that cannot come: stopped, unseen, gone or never there."""

from unstuck.diagnose.finding import Finding, culprit, process_evidence, stack_evidence
from unstuck.diagnose.standing import Job
from unstuck.diagnose.words import ranks_text
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Culprit, Evidence

_MOST_ITEMS = 5


def explain_stopped(states: list[RankState]) -> Finding:
    """Say that processes are stopped by a signal or held by a debugger."""
    return Finding(
        cause=Cause.PROCESS_STOPPED,
        confidence=Confidence.CERTAIN,
        because="the kernel reports the process as stopped",
        culprits=tuple(
            culprit(state, _stopped_phrase(state), state.stalled_for) for state in states
        ),
        evidence=tuple(process_evidence(state) for state in states[:_MOST_ITEMS]),
    )


def explain_unseen(job: Job, ranks: list[int]) -> Finding:
    """Say that the waiting ends at ranks that cannot be seen; nobody is accused."""
    reasons = sorted({_why_unseen(job, rank) for rank in ranks})
    return Finding(
        cause=Cause.UNKNOWN,
        confidence=Confidence.POSSIBLE,
        because=f"{ranks_text(ranks)} cannot be seen: {'; '.join(reasons)}",
        culprits=(),
        evidence=tuple(Evidence(ranks_text(ranks), reason) for reason in reasons[:_MOST_ITEMS]),
        summary=f"The job stands still and {ranks_text(ranks)}, for which the others wait, "
        "cannot be seen from here.",
        alternatives=(
            Alternative(Cause.TRANSPORT_STALL, f"take stacks of {ranks_text(ranks)} by hand"),
        ),
    )


def explain_missing(job: Job, ranks: list[int], seconds: float) -> Finding:
    """Say that ranks of this job were never seen."""
    world = job.snapshot.world_size
    return Finding(
        cause=Cause.NEVER_JOINED,
        confidence=Confidence.POSSIBLE,
        because=f"{len(job.states)} of {world} ranks were seen; a rank that runs without our "
        "probe would look the same",
        culprits=tuple(
            Culprit(rank, "", "was never seen in this job", seconds=seconds) for rank in ranks
        ),
        seconds=seconds,
        evidence=(Evidence("hub", f"{ranks_text(ranks)} of {world} never reported", "root"),),
        alternatives=(
            Alternative(
                Cause.NETWORK_MISCONFIGURATION,
                "see on the missing hosts whether the launcher runs and reaches the master "
                "address and port",
            ),
        ),
    )


def explain_absentees(states: list[RankState]) -> Finding:
    """Say that ranks ended successfully although others wait for a message from them."""
    return Finding(
        cause=Cause.RANK_LEFT_EARLY,
        confidence=Confidence.LIKELY,
        because="the others wait for an operation that these ranks never began",
        culprits=tuple(
            culprit(
                state,
                "ended successfully while others still needed it",
                state.process.gone_for or state.stalled_for,
            )
            for state in states
        ),
        evidence=tuple(process_evidence(state) for state in states[:_MOST_ITEMS]),
        alternatives=(Alternative(Cause.UNEVEN_WORK, "compare the number of batches per rank"),),
    )


def explain_ended_behind(states: list[RankState]) -> Finding:
    """Say that ranks had not come when the others gave up, and were ended afterwards."""
    return Finding(
        cause=Cause.BUSY_ELSEWHERE,
        confidence=Confidence.POSSIBLE,
        because="the others gave up waiting for it, and it was ended afterwards; what it did is "
        "known only up to its end",
        culprits=tuple(
            culprit(
                state,
                "had not come when the others gave up waiting",
                state.process.gone_for or state.stalled_for,
            )
            for state in states
        ),
        evidence=tuple(item for state in states[:_MOST_ITEMS] for item in stack_evidence(state)),
        alternatives=(
            Alternative(Cause.HOST_DEADLOCK, "run again and take its stack before the timeout"),
            Alternative(Cause.TIMEOUT_TOO_SHORT, "compare its usual step time with the timeout"),
        ),
    )


def _stopped_phrase(state: RankState) -> str:
    if state.process.state == "t":
        return "is held by a debugger (state t)"
    if state.process.state == "F":
        return "is held by the freezer of its control group"
    return "is stopped by a signal (state T)"


def _why_unseen(job: Job, rank: int) -> str:
    state = job.states.get(rank)
    if state is None:
        return "it never reported"
    return state.unobserved or f"the agent on {state.host} is gone"
