"""Ranks that have left the loop which the others are still in: fewer batches, or an early break.

A rank that ran out of data looks like one that calls another collective by mistake: both are
in an operation that the others did not expect. The script itself decides. A rank in the same
loop as the others took another branch there: a mismatch. A rank that is in an outer loop only,
or in none, has left the inner one: it finished its work before the others. Unless it is in no
loop because it has not reached one yet: at an earlier line than the others, where they diverge.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unstuck.diagnose.finding import Finding, culprit, stack_evidence
from unstuck.diagnose.job.evidence import own_exception
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.text import ranks_text
from unstuck.model.doing import Activity, LeftLoop, StillInLoop
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence, Role

_MOST_ITEMS = 5
_TOOK_ANOTHER_WAY = Alternative(
    Cause.COLLECTIVE_MISMATCH,
    "compare the number of batches per rank: if they are equal, the rank left the loop through a "
    "break or return that only it took",
)
_RAN_OUT = Alternative(
    Cause.UNEVEN_WORK,
    "compare the number of batches per rank: if they differ, the exception only says that the data "
    "has run out",
)


class Left(NamedTuple):
    """Ranks that have left a loop, the loop, and those that are still in it."""

    ranks: tuple[int, ...]
    loop: str
    staying: tuple[int, ...]


def find_leavers(job: Job, sides: Sequence[Sequence[int]]) -> Left | None:
    """Find the sides that have left the loop of another one; None where that is not known."""
    loops = [_loops_of(job, ranks) for ranks in sides]
    known = [one for one in loops if one is not None]
    inner = max(known, key=len, default=())
    if len(known) < len(loops) or not inner:
        return None
    gone = [
        ranks
        for ranks, one in zip(sides, known, strict=True)
        if len(one) < len(inner) and inner[: len(one)] == one
    ]
    staying = [ranks for ranks, one in zip(sides, known, strict=True) if one == inner]
    if not gone or len(gone) + len(staying) < len(known):
        return None
    if any(_has_yet_to_come(job, rank, staying[0]) for ranks in gone for rank in ranks):
        return None
    shortest = min(len(one) for one in known)
    return Left(_sorted(gone), inner[shortest], _sorted(staying))


def same_loops(job: Job, ranks: Sequence[int]) -> bool:
    """Tell whether all these ranks are known to be in the very same loops."""
    found = {state.loops for rank in ranks if (state := job.states.get(rank)) is not None}
    return len(found) == 1 and bool(found.pop())


def has_left_everything(job: Job, state: RankState, waiting: Sequence[int]) -> Left | None:
    """Tell whether a rank is in no loop at all while all that wait for it are in one."""
    if state.loops != ():
        return None
    others = [rank for rank in waiting if rank != state.rank]
    inner = _loops_of(job, others)
    if not inner or _has_yet_to_come(job, state.rank, others):
        return None
    return Left((state.rank,), inner[0], tuple(others))


def merge_left(found: Sequence[Left]) -> list[Left]:
    """Join those that have left the same loop, in which the same others are."""
    ranks: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for one in found:
        ranks.setdefault((one.loop, one.staying), []).extend(one.ranks)
    return [Left(tuple(sorted(gone)), loop, rest) for (loop, rest), gone in ranks.items()]


def explain_left(job: Job, left: Left, doing: Mapping[int, Activity]) -> Finding:
    """Write the finding; `doing` says what each of the ranks that left does instead.

    The smaller side is the odd one: when most have left, those still in the loop have more to do
    than the others had, such as a rank that resumed from an older checkpoint.
    """
    if len(left.ranks) > len(left.staying):
        return explain_staying(job, left.staying, left.ranks, left.loop)
    states = [job.states[rank] for rank in left.ranks]
    raised = all(own_exception(job, state).handling for state in states)
    return Finding(
        cause=Cause.RANK_LEFT_EARLY if raised else Cause.UNEVEN_WORK,
        confidence=Confidence.LIKELY,
        because=f"the others are still in the loop at {left.loop}, which "
        f"{ranks_text(left.ranks)} {'has' if len(left.ranks) == 1 else 'have'} left"
        + (" by an exception" if raised else ""),
        culprits=tuple(
            culprit(state, LeftLoop(left.loop, doing[state.rank]), state.stalled_for)
            for state in states
        ),
        evidence=(
            *(item for state in states[:_MOST_ITEMS] for item in stack_evidence(state)),
            *steps_evidence(job, left.ranks),
        ),
        alternatives=(_RAN_OUT if raised else _TOOK_ANOTHER_WAY,),
    )


def explain_staying(job: Job, ranks: Sequence[int], gone: Sequence[int], loop: str = "") -> Finding:
    """Say that a few ranks are still in the loop that most have left."""
    states = [job.states[rank] for rank in ranks]
    return Finding(
        cause=Cause.UNEVEN_WORK,
        confidence=Confidence.LIKELY,
        because=f"{ranks_text(gone)} {'has' if len(gone) == 1 else 'have'} left the loop"
        + (f" at {loop}" if loop else "")
        + f", and only {ranks_text(ranks)} {'goes' if len(ranks) == 1 else 'go'} on in it",
        culprits=tuple(
            culprit(state, StillInLoop(loop), state.process.gone_for or state.stalled_for)
            for state in states
        ),
        evidence=(
            *(item for state in states[:_MOST_ITEMS] for item in stack_evidence(state)),
            *steps_evidence(job, ranks),
        ),
        alternatives=(
            Alternative(
                Cause.RANK_LEFT_EARLY,
                "compare the step at which each rank started and the number of batches per rank: "
                "if both are equal, the others left the loop too early",
            ),
        ),
    )


def steps_evidence(job: Job, ranks: Sequence[int]) -> tuple[Evidence, ...]:
    """Quote how many steps these ranks and the others have done, where steps are counted."""
    chosen = set(ranks)
    steps = {rank: state.step for rank, state in job.states.items() if state.step}
    own = sorted({step for rank, step in steps.items() if rank in chosen})
    others = sorted({step for rank, step in steps.items() if rank not in chosen})
    if not own or not others:
        return ()
    text = f"{_span(own)} steps done, the others {_span(others)}"
    return (Evidence(f"{ranks_text(ranks)}: steps", text, Role.ROOT),)


def _sorted(sides: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sorted(rank for ranks in sides for rank in ranks))


def _span(numbers: list[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return str(first) if first == last else f"{first} to {last}"


def _has_yet_to_come(job: Job, rank: int, others: Sequence[int]) -> bool:
    """Tell whether a rank in no loop is at an earlier line than the others, which are in one."""
    state = job.states[rank]
    if state.loops != ():
        return False
    routes = (job.states[other].route for other in others if other in job.states)
    theirs = next((route for route in routes if route), ())
    for own, other in zip(state.route, theirs, strict=False):
        if own != other:
            same = (own.file, own.function) == (other.file, other.function)
            return same and own.line < other.line
    return False


def _loops_of(job: Job, ranks: Sequence[int]) -> tuple[str, ...] | None:
    """The loops that all these ranks are in, as far as they are known and agree."""
    states = (job.states.get(rank) for rank in ranks)
    found = {state.loops for state in states if state is not None and state.loops is not None}
    return next(iter(found)) if len(found) == 1 else None
