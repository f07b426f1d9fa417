"""What to do about a verdict: a pure function of the verdict and of what was done before."""

from msgspec import structs

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


MAY_HEAL = frozenset({Cause.NODE_FAILURE, Cause.NETWORK_PARTITION})
"""A network that works again may let the attempt go on, and shows what it really was."""


def plan(verdict: Verdict, history: tuple[Told, ...]) -> tuple[Action, ...]:
    """Return what to do, in order. Nothing twice, and nothing about consequences.

    A job may be slow before it stands, and slow again afterwards: those are told apart.
    What is past is told only where it corrects what was told while it lasted.

    Example:
        plan(verdict, ())  # (Action.DUMP, Action.REPORT)
    """
    this = Told.of(verdict)
    same = [told for told in history if told.attempt == this.attempt]
    if this.over:
        lost = [told for told in same if told.cause in MAY_HEAL]
        news = bool(lost) and not any(told.over for told in lost)
    else:
        news = not any(
            told == this or told.cause in FATAL or _same_slowness(told, this)
            for told in same
            if not (told.healed or told.over)
        )
    return (Action.DUMP, Action.REPORT) if news else ()


def remember(verdict: Verdict, history: tuple[Told, ...]) -> tuple[Told, ...]:
    """Add a verdict that is acted on; a new one makes earlier corrections history."""
    this = Told.of(verdict)
    return (*(told for told in history if this.over or not told.over), this)


def after_recovery(verdict: Verdict, history: tuple[Told, ...]) -> tuple[Told, ...]:
    """Forget what is over. A cut that nobody has explained yet may still be corrected."""
    corrected = any(told.over for told in history)
    kept: list[Told] = []
    for told in history:
        if told.cause in MAY_HEAL and not corrected:
            kept.append(structs.replace(told, healed=True))
        elif told.cause not in MAY_HEAL and told != Told.of(verdict):
            kept.append(told)
    return tuple(kept)


def after_replacement(attempt: int, history: tuple[Told, ...]) -> tuple[Told, ...]:
    """Forget who was lost in an attempt that goes on with all its ranks: the next loss is news."""
    lost = FATAL - MAY_HEAL
    return tuple(told for told in history if told.attempt != attempt or told.cause not in lost)


def _same_slowness(told: Told, this: Told) -> bool:
    """One slowness is told once, even if it shows another cause or one more rank later."""
    return told.slow and this.slow and bool({*told.culprits} & {*this.culprits})
