"""Waits in `monitored_barrier`, which no recorder shows: only the stack does.

Which group it is for is not seen. A rank is blamed only if every group that may be meant
waits for it.
"""

from msgspec.structs import replace

from unstuck.diagnose.blocked import is_blocked
from unstuck.diagnose.finding import Finding, culprit, stack_evidence
from unstuck.diagnose.standing import Job
from unstuck.diagnose.store import complete, explain_late, explain_unable
from unstuck.diagnose.words import ranks_text
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence

CALL = "monitored_barrier"
_MOST_ITEMS = 5


def in_barrier(job: Job) -> list[RankState]:
    """List the living ranks that wait in `monitored_barrier`."""
    return [state for state in job.live if _is_inside(state)]


def _is_inside(state: RankState) -> bool:
    if not state.stack or (inner := state.stack[0]).function != CALL:
        return False
    return inner.file.endswith("distributed_c10d.py") and not state.in_flight and not state.gil_held


def find_barrier_waits(job: Job, limit: float) -> list[Finding]:
    """Explain who does not come to the barrier, once that has lasted long enough.

    Ranks that wait in a collective meanwhile have their own story: see `explain_apart`.
    """
    waiting = in_barrier(job)
    if not waiting or max(state.stalled_for for state in waiting) < limit:
        return []
    absent = [job.states[rank] for rank in sorted(_absent(job, waiting)) if rank in job.states]
    if any(state.in_flight and is_blocked(state) for state in absent):
        return []
    found = explain_unable(job, absent) or explain_late(job, absent, limit, CALL)
    return [complete(finding, waiting, CALL) for finding in found]


def _absent(job: Job, waiting: list[RankState]) -> set[int]:
    """Find the ranks that are missing in every group which all the waiting belong to."""
    inside = {state.rank for state in waiting}
    absent = set(job.states) - inside
    for progress in waiting[0].groups:
        members = set(progress.ranks)
        if inside < members:
            absent &= members
    return absent


def explain_apart(job: Job, finding: Finding) -> Finding | None:
    """Say that some ranks are in the barrier and the others in a collective, if they are."""
    blamed = {one.rank for one in finding.culprits}
    # Mostly nobody is in it: then there is no need to look at all the other ranks.
    if finding.stuck is None or not all(rank in job.states for rank in blamed):
        return None
    if not blamed or not all(_is_inside(job.states[rank]) for rank in blamed):
        return None
    inside = {state.rank for state in in_barrier(job)}
    if not blamed <= inside:
        return None
    there = finding.stuck.waiting
    tie = len(there) == len(inside)
    odd = sorted({*inside, *there}) if tie else sorted(min(inside, there, key=len))
    phrases = dict.fromkeys(inside, f"is in {CALL}")
    phrases |= dict.fromkeys(there, f"is in {finding.stuck.op} and not in {CALL}")
    states = [job.states[rank] for rank in odd if rank in job.states]
    return replace(
        finding,
        cause=Cause.COLLECTIVE_MISMATCH,
        confidence=Confidence.POSSIBLE if tie else Confidence.LIKELY,
        because=f"{ranks_text(inside)} in {CALL}, {ranks_text(there)} in {finding.stuck.op}",
        culprits=tuple(culprit(s, phrases[s.rank], s.stalled_for) for s in states),
        victims=tuple(sorted({*finding.victims, *inside, *there}.difference(odd))),
        evidence=tuple(item for s in states[:_MOST_ITEMS] for item in stack_evidence(s)),
        alternatives=(
            Alternative(
                Cause.UNEVEN_WORK,
                "compare the number of batches per rank: a rank that ran out of data is already "
                "in its next phase",
            ),
        ),
    )
