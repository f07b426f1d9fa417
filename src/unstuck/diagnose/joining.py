"""Ranks that the others wait for before the first collective: missing or not there yet."""

from unstuck.diagnose.finding import Finding
from unstuck.diagnose.host import explain_rank
from unstuck.diagnose.silence import explain_missing
from unstuck.diagnose.stall import JOIN_WITHIN
from unstuck.diagnose.standing import Job, Standing

_MOST_NAMED = 64


def find_unjoined(job: Job) -> Finding | None:
    """Find who keeps the others in `init_process_group` for more than a minute."""
    joining = [state for state in job.states.values() if state.phase == "init"]
    waiting = [s for s in joining if job.standing(s.rank) is Standing.LIVE]
    seconds = max((state.stalled_for for state in waiting), default=0.0)
    if seconds < JOIN_WITHIN:
        return None
    finding = _missing(job, seconds) or _not_yet_there(job, seconds)
    if finding is None:
        return None
    blamed = {one.rank for one in finding.culprits}
    victims = tuple(sorted(state.rank for state in waiting if state.rank not in blamed))
    text = f"waits in init_process_group for {len(blamed)} ranks"
    chain = (f"{len(victims)} ranks wait" + text.removeprefix("waits"),)
    return Finding(
        cause=finding.cause,
        confidence=finding.confidence,
        because=finding.because,
        culprits=finding.culprits,
        victims=victims,
        seconds=seconds,
        evidence=finding.evidence,
        alternatives=finding.alternatives,
        chain=chain,
    )


def _missing(job: Job, seconds: float) -> Finding | None:
    missing = [rank for rank in range(job.snapshot.world_size) if rank not in job.states]
    return explain_missing(job, missing[:_MOST_NAMED], seconds) if missing else None


def _not_yet_there(job: Job, seconds: float) -> Finding | None:
    late = [
        state
        for state in sorted(job.states.values(), key=lambda state: state.rank)
        if state.phase == "start" and job.standing(state.rank) is Standing.LIVE
    ]
    if not late or min(state.stalled_for for state in late) < JOIN_WITHIN:
        return None
    doings = [explain_rank(state) for state in late[:_MOST_NAMED]]
    same = [doing for doing in doings if doing.cause is doings[0].cause]
    return Finding(
        cause=same[0].cause,
        confidence=same[0].confidence,
        because=f"it has not called init_process_group; {same[0].because}",
        culprits=tuple(doing.culprit for doing in same),
        seconds=seconds,
        evidence=tuple(item for doing in same[:5] for item in doing.evidence),
        alternatives=same[0].alternatives,
    )
