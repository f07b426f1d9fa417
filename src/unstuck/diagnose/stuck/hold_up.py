"""A living rank keeps others waiting: is it stuck, or will it arrive?

Being late is a fact and no fault: uploads, evaluations and compilers are late as well. It becomes
a fault by proof that the rank cannot go on by itself, or by time without any sign of life in its
process, its threads and its children. A user who said how long to wait decides that alone.

Where signs of life were not collected (dumps, incidents of older versions), waiting decides.
"""

from unstuck.diagnose.finding import HoldUp
from unstuck.diagnose.job.patience import is_asked
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.text import seconds_text
from unstuck.diagnose.thresholds import GRACE, INPUT_QUIET_FOR, QUIET_FOR, TIMES, WARN_AT
from unstuck.model.doing import WaitsForInput
from unstuck.model.rank import RankState
from unstuck.model.verdict import Basis, Culprit


def basis_of(
    job: Job, state: RankState, culprit: Culprit, proof: str, waited: float
) -> Basis | None:
    """Say what allows a verdict about a rank that others have waited for longer than usual."""
    if is_asked(state, job.snapshot.controls):
        return Basis.ASKED
    if not job.snapshot.shows_life:
        return Basis.TIME
    if proof:
        return Basis.PROOF
    limit = _quiet_limit(job, culprit)
    if state.life is None:
        return Basis.TIME if waited >= limit + GRACE else None
    return Basis.TIME if state.life.quiet_for >= limit else None


def hold_up_of(
    job: Job, state: RankState, culprit: Culprit, waiting: tuple[int, ...], group: str
) -> HoldUp:
    """Say what is known of one that may still arrive, and when it would be too late."""
    life = state.life
    judged_in = _quiet_limit(job, culprit) - life.quiet_for if life else None
    return HoldUp(
        life=life,
        judged_in=None if life and life.signs else judged_in,
        times_out_in=_times_out_in(job, waiting, group),
    )


def because_of(basis: Basis, proof: str, state: RankState, waited: float) -> str:
    """Word by which proof, or after how long, a verdict is given."""
    if basis is Basis.ASKED:
        return f"; the others have waited {seconds_text(waited)}, as long as was asked for"
    if basis is Basis.PROOF:
        return f"; it cannot go on by itself: {proof}" if proof else ""
    if state.life is None:
        return ""
    quiet = seconds_text(state.life.quiet_for)
    return f"; no sign of life for {quiet}: no CPU time, no bytes, no new line of code"


def _quiet_limit(job: Job, culprit: Culprit) -> float:
    """Give a rank three times what this job has shown at any hold-up, and at least a minute."""
    shown = max(job.long_places.values(), default=0.0)
    by_design = isinstance(culprit.activity, WaitsForInput)
    return max(INPUT_QUIET_FOR if by_design else QUIET_FOR, TIMES * shown)


def _times_out_in(job: Job, waiting: tuple[int, ...], name: str) -> float | None:
    """Return when torch gives up, once half of the time has passed; None before."""
    left: list[float] = []
    for rank in waiting:
        state = job.states.get(rank)
        if state is None or not state.in_flight:
            continue
        timeout = next((one.timeout for one in state.groups if one.name == name), 0.0)
        if timeout and state.stalled_for >= WARN_AT * timeout:
            left.append(max(0.0, timeout - state.stalled_for))
    return round(min(left), 1) if left else None
