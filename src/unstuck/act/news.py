"""Which verdicts are news: what was reported about a job, and what of it is over."""

from msgspec import Struct, structs

from unstuck.diagnose.job.standing import all_move
from unstuck.diagnose.slow import straggler
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause, Verdict

ENDS_ATTEMPT = frozenset(
    {
        Cause.PROCESS_CRASH,
        Cause.OUT_OF_MEMORY,
        Cause.RANK_LEFT_EARLY,
        Cause.NODE_FAILURE,
        Cause.NETWORK_PARTITION,
    }
)
"""After one of these the attempt is lost: whatever else fails is a consequence."""
MAY_HEAL = frozenset({Cause.NODE_FAILURE, Cause.NETWORK_PARTITION})
"""A network that works again may let the attempt continue, and shows what it really was."""


class Reported(Struct, frozen=True):
    """What identifies a verdict that was reported."""

    attempt: int
    cause: Cause
    culprits: tuple[int, ...]
    slow: bool = False
    """The job was slow, not stuck: a stall by the same rank for the same cause is news."""
    over: bool = False
    """It was about something that was past."""
    healed: bool = False
    """The job moved on afterwards: only what corrects it is still news."""

    @classmethod
    def of(cls, verdict: Verdict) -> "Reported":
        """Return the identity of a verdict."""
        culprits = tuple(sorted(culprit.rank for culprit in verdict.culprits))
        slow, over = verdict.slowdown > 0, bool(verdict.until)
        return cls(verdict.attempt, verdict.cause, culprits, slow, over)


def is_news(verdict: Verdict, history: tuple[Reported, ...]) -> bool:
    """Tell whether a verdict should be reported: nothing twice, and nothing about consequences.

    A job may be slow before it is stuck, and slow again afterwards: those are different. What is
    past is news only where it corrects what was reported while it lasted.
    """
    this = Reported.of(verdict)
    same = [one for one in history if one.attempt == this.attempt]
    if this.over:
        lost = [one for one in same if one.cause in MAY_HEAL]
        return bool(lost) and not any(one.over for one in lost)
    return not any(
        one == this or one.cause in ENDS_ATTEMPT or _same_slowness(one, this)
        for one in same
        if not (one.healed or one.over)
    )


def _same_slowness(one: Reported, this: Reported) -> bool:
    """One slowness is reported once, even if it shows another cause or one more rank later."""
    return one.slow and this.slow and bool({*one.culprits} & {*this.culprits})


class Incidents:
    """What was reported about one job: the history, and what is not over yet."""

    def __init__(self) -> None:
        self._history: tuple[Reported, ...] = ()
        self._slow: dict[Reported, Verdict] = {}
        self.stall: Verdict | None = None
        """The stall that was reported and is not over."""

    @property
    def any_open(self) -> bool:
        """Tell whether something that was reported is not over."""
        return self.stall is not None or bool(self._slow)

    @property
    def open(self) -> tuple[Verdict, ...]:
        """The verdicts that were reported and are not over, a stall first."""
        return (*([self.stall] if self.stall else []), *self._slow.values())

    def is_news(self, verdict: Verdict) -> bool:
        """Tell whether a verdict should be reported."""
        return is_news(verdict, self._history)

    def add(self, verdict: Verdict) -> None:
        """Note that a verdict is reported; it makes earlier corrections history."""
        this = Reported.of(verdict)
        if verdict.slowdown:
            self._slow[this] = verdict
        elif self.stall is not None or not verdict.until:
            self.stall = verdict
        self._history = (*(one for one in self._history if this.over or not one.over), this)

    def note_replacements(self, snapshot: Snapshot) -> None:
        """Forget who was lost in an attempt that continues with all its ranks.

        A rank that was restarted by itself is there as before: its next loss is news.
        """
        if 0 < snapshot.world_size <= len(snapshot.ranks) and all_move(snapshot.ranks):
            lost, attempt = ENDS_ATTEMPT - MAY_HEAL, snapshot.attempt
            kept = (o for o in self._history if o.attempt != attempt or o.cause not in lost)
            self._history = tuple(kept)

    def stall_is_over(self, snapshot: Snapshot, *, acting: bool) -> str | None:
        """Close the stall if it is over and return what to say about it; None if it is not.

        Ranks that are being freed or ended (`acting`) move, but not the job.
        """
        verdict = self.stall
        if verdict is None:
            return None
        lost = verdict.cause in ENDS_ATTEMPT - MAY_HEAL
        if lost or verdict.attempt != snapshot.attempt:
            self.stall = None
            return ""
        part = {*verdict.victims, *(culprit.rank for culprit in verdict.culprits)}
        states = [state for state in snapshot.ranks if state.rank in part]
        if acting or not all_move(states) or _leave(snapshot, states):
            return None
        if not all(_was_seen_to_move(state) for state in states):
            return None
        self.stall = None
        self._forget_stall(Reported.of(verdict))
        return "the job moves again"

    def slow_that_recovered(self, snapshot: Snapshot) -> list[Verdict]:
        """Return the slow verdicts whose culprits keep up again; drop those of past attempts."""
        found: list[Verdict] = []
        for this, verdict in list(self._slow.items()):
            over = straggler.is_over(verdict, snapshot)
            if over or verdict.attempt != snapshot.attempt:
                del self._slow[this]
                self._history = tuple(one for one in self._history if one != this)
                found += [verdict] if over else []
        return found

    def _forget_stall(self, stall: Reported) -> None:
        """A cut that has not been explained yet may still be corrected."""
        corrected = any(one.over for one in self._history)
        kept: list[Reported] = []
        for one in self._history:
            if one.cause in MAY_HEAL and not corrected:
                kept.append(structs.replace(one, healed=True))
            elif one.cause not in MAY_HEAL and one != stall:
                kept.append(one)
        self._history = tuple(kept)


def _was_seen_to_move(state: RankState) -> bool:
    """Tell whether its agent has seen it move at all: to one that was just restarted all is new."""
    return state.pace.gaps > 0 or state.pace.first > 0


def _leave(snapshot: Snapshot, states: list[RankState]) -> bool:
    """Tell whether ranks move only to their end: somebody ended the job, or it fails."""
    ending = any(node.stopping for node in snapshot.nodes)
    return ending or any(state.phase == "exit" for state in states)
