"""What to do about a verdict: a pure function of the verdict and of what was done before."""

from unstuck.model.action import Action, Told
from unstuck.model.verdict import Cause, Verdict

FATAL = frozenset(
    {
        Cause.PROCESS_CRASH,
        Cause.OUT_OF_MEMORY,
        Cause.RANK_LEFT_EARLY,
        Cause.NODE_FAILURE,
        Cause.NETWORK_PARTITION,
    }
)
"""After one of these the attempt is lost: whatever else falls over is a consequence."""


def plan(verdict: Verdict, history: tuple[Told, ...]) -> tuple[Action, ...]:
    """Return what to do, in order. Nothing twice, and nothing about consequences.

    Example:
        plan(verdict, ())  # (Action.DUMP, Action.REPORT)
    """
    this = Told.of(verdict)
    for told in history:
        if told.attempt == this.attempt and (told == this or told.cause in FATAL):
            return ()
    return (Action.DUMP, Action.REPORT)
