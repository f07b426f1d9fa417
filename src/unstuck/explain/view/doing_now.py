"""What each rank does at this moment, as one of a few states that a colour can stand for."""

from enum import StrEnum

from unstuck.diagnose.job.main_thread import is_blocked
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.thresholds import BUSY_CPU
from unstuck.model.liveness import Standing
from unstuck.model.rank import Phase, ProcessState, RankState


class State(StrEnum):
    """What a rank does now, from the most ordinary to the most serious."""

    COMPUTING = "computing"
    COLLECTIVE = "collective"
    """Waits in a collective, a send or a receive."""
    SECTION = "section"
    """Runs a section of the script, such as loading or saving."""
    BLOCKED = "blocked"
    """Alive, outside any collective, and not running: asleep, or waiting on its own host."""
    STARTING = "starting"
    SLOW = "slow"
    """Slows the others down, by the verdict."""
    DONE = "done"
    """Has ended in order."""
    UNSEEN = "unseen"
    """Its process lives, but nobody can look into it."""
    MISSING = "missing"
    """Was never seen."""
    SILENT = "silent"
    """Nothing is heard from its host."""
    STOPPED = "stopped"
    GONE = "gone"
    """Has died."""


LETTERS = dict(zip(State, "cwsbilduxqtg", strict=True))
"""One letter for each state: 100,000 ranks are a string of 100,000 letters."""
BY_LETTER = {letter: state for state, letter in LETTERS.items()}

LONG = 1.0
"""Seconds without progress or processor time after which a living rank counts as blocked."""
_STANDING = {
    Standing.STOPPED: State.STOPPED,
    Standing.SILENT: State.SILENT,
    Standing.UNSEEN: State.UNSEEN,
    Standing.MISSING: State.MISSING,
}
_STARTING = (Phase.BORN, Phase.START, Phase.INIT)


def state_of(job: Job, rank: int) -> State:
    """Say what a rank of a surveyed job does now.

    Example:
        state_of(survey(snapshot), 3)
    """
    standing = job.standing(rank)
    if found := _STANDING.get(standing):
        return found
    state = job.states[rank]
    if standing is Standing.GONE:
        return State.DONE if _left_in_order(state) else State.GONE
    return _of_living(state)


def _left_in_order(state: RankState) -> bool:
    code = state.process.exit_code
    return code == 0 or (code is None and state.phase == Phase.EXIT)


def _of_living(state: RankState) -> State:
    if state.in_flight and is_blocked(state):
        return State.COLLECTIVE
    if state.phase in _STARTING:
        return State.STARTING
    if state.phase == Phase.EXIT:
        return State.DONE
    if state.sections:
        return State.SECTION
    return State.BLOCKED if _idles(state) else State.COMPUTING


def _idles(state: RankState) -> bool:
    idle = state.process.state is not ProcessState.RUNNING and state.process.cpu < BUSY_CPU
    return idle and state.stalled_for > LONG
