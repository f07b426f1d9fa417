"""One explanation of what is wrong, before it is written up as a verdict."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from unstuck.diagnose.text import place, seconds_text
from unstuck.diagnose.wording import phrase
from unstuck.model.doing import Activity
from unstuck.model.life import Life
from unstuck.model.rank import CodeLine, RankState
from unstuck.model.verdict import (
    Alternative,
    Basis,
    Cause,
    Confidence,
    Culprit,
    CutLink,
    Evidence,
    Role,
    StuckOperation,
)


class HoldUp(Struct, frozen=True):
    """Why a finding is no verdict yet: it may resolve itself."""

    life: Life | None = None
    judged_in: float | None = None
    times_out_in: float | None = None


class Finding(Struct, frozen=True):
    """Cause, culprits and victims with everything that speaks for them."""

    cause: Cause
    confidence: Confidence
    because: str
    culprits: tuple[Culprit, ...]
    victims: tuple[int, ...] = ()
    seconds: float = 0.0
    """How long ago it began."""
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    stuck: StuckOperation | None = None
    chain: tuple[str, ...] = ()
    slowdown: float = 0.0
    """How many times longer a step takes, where the job is slow and not stuck."""
    summary: str = ""
    """Set where the culprits alone do not say it."""
    cut: tuple[CutLink, ...] = ()
    over: bool = False
    """It is over: the verdict corrects or completes an earlier one."""
    basis: Basis = Basis.PROOF
    """What allows a verdict."""
    hold_up: HoldUp | None = None
    """Set where nothing does yet: then it is a notice."""


def user_line(state: RankState) -> CodeLine | None:
    """Return the innermost frame of the user's own code."""
    return next((line for line in state.stack if line.user), None)


def blame(rank: int, host: str, activity: Activity, *, lang: str = "en", **known: Any) -> Culprit:
    """Name a rank with what it does; `known` are further fields of the culprit."""
    return with_activity(Culprit(rank, host, "", **known), activity, lang)


def with_activity(one: Culprit, activity: Activity, lang: str = "en") -> Culprit:
    """Return a culprit that does this, in words and as a value."""
    kind = str(activity.__struct_config__.tag)
    return replace(one, doing=phrase(activity, lang), kind=kind, activity=activity)


def culprit(
    state: RankState, activity: Activity, seconds: float, at: CodeLine | None = None
) -> Culprit:
    """Name a rank with what it does, for how long, and its own line of code where known."""
    found = blame(state.rank, state.host, activity, pid=state.process.pid, seconds=seconds)
    line = at or user_line(state)
    if line is None:
        return found
    code = line.text.strip()
    return replace(found, file=line.file, line=line.line, function=line.function, code=code)


def stack_evidence(state: RankState) -> tuple[Evidence, ...]:
    """Quote where the main thread is: its innermost frame and the user's own."""
    lines = [line for line in (*state.stack[:1], user_line(state)) if line is not None]
    unique = list(dict.fromkeys(lines))
    return tuple(
        Evidence(
            source=f"rank {state.rank}: stack",
            text=f"main thread at {place(line)}" + (f": {line.text.strip()}" if line.text else ""),
            role=Role.ROOT,
            file=line.file,
            line=line.line,
        )
        for line in unique
    )


def process_evidence(state: RankState) -> Evidence:
    """Quote what the operating system says about the main thread."""
    process = state.process
    text = f"process {process.pid} in state {process.state}, CPU {process.cpu:.0%}"
    if process.waits_in not in ("", "0"):
        text += f", waits in {process.waits_in}"
    text += f", no progress for {seconds_text(state.stalled_for)}"
    return Evidence(f"rank {state.rank}: /proc", text, Role.ROOT)
