"""A snapshot in; a verdict, who holds others up, and the wish for more evidence, out.

A rule that raises is skipped: what it would have said is missing, and the rules below it still
speak. The diagnosis names it, so that whoever shows the verdict can ask for a bug report.
"""

import traceback
from collections.abc import Sequence

from msgspec.structs import replace

from unstuck.diagnose.ask import ask_for
from unstuck.diagnose.case import Case
from unstuck.diagnose.finding import Finding
from unstuck.diagnose.job.standing import survey
from unstuck.diagnose.ladder import LADDER, Rule
from unstuck.diagnose.write import write_notice, write_verdict
from unstuck.model.diagnosis import BrokenRule, Diagnosis
from unstuck.model.requests import EvidenceRequest
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause

LOST = (Cause.NODE_FAILURE, Cause.NETWORK_PARTITION)
"""What is reported during a pause too, beside deaths: whoever asked for one may stop ranks in a
debugger, but loses no node on purpose."""
_LONGEST_TRACE = 4000


def diagnose(snapshot: Snapshot, ladder: Sequence[Rule] = LADDER) -> Diagnosis:
    """Judge a snapshot: go down the ladder until a rule speaks.

    Example:
        >>> diagnose(Snapshot(taken_at=0.0)).verdict is None
        True
    """
    broken: list[BrokenRule] = []
    try:
        case = Case(survey(snapshot))
    except Exception as error:  # noqa: BLE001 - a bug of ours must not end the watching
        return Diagnosis(broken=(note_broken("the survey of the job", error),))
    paused = snapshot.controls.paused_left > 0
    for rule in ladder:
        try:
            found = rule.find(case)
            answer = None if found is None else _answer(case, rule, found, paused=paused)
        except Exception as error:  # noqa: BLE001 - see above
            broken.append(note_broken(rule.name, error))
            continue
        if answer is not None:
            requests = _ask(case, broken) if rule.living and not paused else ()
            return replace(answer, requests=requests, broken=tuple(broken))
    return Diagnosis(requests=() if paused else _ask(case, broken), broken=tuple(broken))


def _answer(case: Case, rule: Rule, found: list[Finding], *, paused: bool) -> Diagnosis:
    snapshot = case.job.snapshot
    judged = [one for one in found if one.hold_up is None]
    verdict = write_verdict(snapshot, judged) if judged else None
    if rule.living and paused:
        return Diagnosis(verdict=verdict if verdict and verdict.cause in LOST else None)
    notices = tuple(write_notice(snapshot, one) for one in found if one.hold_up is not None)
    return Diagnosis(verdict=verdict, notices=notices)


def _ask(case: Case, broken: list[BrokenRule]) -> tuple[EvidenceRequest, ...]:
    try:
        return ask_for(case)
    except Exception as error:  # noqa: BLE001 - see above
        broken.append(note_broken("what else to look at", error))
        return ()


def note_broken(rule: str, error: Exception) -> BrokenRule:
    """Describe a part that raised; the tests replace this by one that raises."""
    trace = "".join(traceback.format_exception(error))[-_LONGEST_TRACE:]
    text = f"{type(error).__name__}: {error}"[:200]
    return BrokenRule(rule, text, trace)
