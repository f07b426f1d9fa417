"""A snapshot in; a verdict, or the wish for more evidence, out."""

from unstuck.diagnose.ask import ask_for
from unstuck.diagnose.case import Case
from unstuck.diagnose.job.standing import survey
from unstuck.diagnose.ladder import LADDER
from unstuck.diagnose.write import write_verdict
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause, Diagnosis

LOST = (Cause.NODE_FAILURE, Cause.NETWORK_PARTITION)
"""What is reported during a pause too, beside deaths: whoever asked for one may stop ranks in a
debugger, but loses no node on purpose."""


def diagnose(snapshot: Snapshot) -> Diagnosis:
    """Judge a snapshot: go down the ladder until a rule speaks.

    Example:
        >>> diagnose(Snapshot(taken_at=0.0)).verdict is None
        True
    """
    case = Case(survey(snapshot))
    paused = snapshot.controls.paused_left > 0
    for rule in LADDER:
        found = rule.find(case)
        if found is None:
            continue
        verdict = write_verdict(snapshot, found) if found else None
        if rule.living and paused:
            return Diagnosis(verdict if verdict and verdict.cause in LOST else None)
        return Diagnosis(verdict, ask_for(case) if rule.living else ())
    return Diagnosis() if paused else Diagnosis(requests=ask_for(case))
