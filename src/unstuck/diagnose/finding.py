"""One explanation of what is wrong, before it is written up as a verdict."""

from msgspec import Struct

from unstuck.diagnose.words import place, seconds_text
from unstuck.model.rank import CodeLine, RankState
from unstuck.model.verdict import (
    Alternative,
    Cause,
    Confidence,
    Culprit,
    CutLink,
    Evidence,
    StuckOperation,
)


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
    """It is past: the verdict corrects or completes an earlier one."""


def user_line(state: RankState) -> CodeLine | None:
    """Return the innermost frame of the user's own code."""
    return next((line for line in state.stack if line.user), None)


def culprit(state: RankState, doing: str, seconds: float, at: CodeLine | None = None) -> Culprit:
    """Name a rank with what it does, for how long, and its own line of code where known."""
    line = at or user_line(state)
    if line is None:
        return Culprit(state.rank, state.host, doing, state.process.pid, seconds=seconds)
    return Culprit(
        rank=state.rank,
        host=state.host,
        doing=doing,
        pid=state.process.pid,
        file=line.file,
        line=line.line,
        function=line.function,
        code=line.text.strip(),
        seconds=seconds,
    )


def stack_evidence(state: RankState) -> tuple[Evidence, ...]:
    """Quote where the main thread is: its innermost frame and the user's own."""
    lines = [line for line in (*state.stack[:1], user_line(state)) if line is not None]
    unique = list(dict.fromkeys(lines))
    return tuple(
        Evidence(
            source=f"rank {state.rank}: stack",
            text=f"main thread at {place(line)}" + (f": {line.text.strip()}" if line.text else ""),
            role="root",
            file=line.file,
            line=line.line,
        )
        for line in unique
    )


def process_evidence(state: RankState) -> Evidence:
    """Quote what the operating system says about the main thread."""
    process = state.process
    text = f"process {process.pid} in state {process.state}, cpu {process.cpu:.0%}"
    if process.waits_in not in ("", "0"):
        text += f", waits in {process.waits_in}"
    text += f", no progress for {seconds_text(state.stalled_for)}"
    return Evidence(f"rank {state.rank}: /proc", text, "root")
