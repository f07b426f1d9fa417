"""Who is to blame, from the logs alone: the rank that failed, is behind, or said nothing."""

import re
from collections.abc import Sequence

from unstuck.diagnose.logfacts import last_phases
from unstuck.diagnose.logroots import Candidate
from unstuck.diagnose.logwaits import Waits, is_wait, rank_of
from unstuck.diagnose.words import ranks_text
from unstuck.model.log import LogFact, LogFailure, LogLine, LogReading
from unstuck.model.verdict import Cause, Culprit

MOST_SILENT = 4

_DOING = {
    LogFact.PREPARING: "was still preparing data",
    LogFact.SAVING: "was saving",
    LogFact.EVALUATING: "was evaluating",
    LogFact.GENERATING: "was generating",
    LogFact.LOADING: "was loading weights",
    LogFact.COMPILING: "was compiling",
}
_OWN_FAULT = {
    Cause.PROCESS_CRASH,
    Cause.OUT_OF_MEMORY,
    Cause.HARDWARE_FAULT,
    Cause.SOFTWARE_BUG,
    Cause.COLLECTIVE_MISMATCH,
    Cause.RESOURCE_CONTENTION,
}
_NUMBERS = re.compile(r"\d+")


def blame(
    root: Candidate | None, cause: Cause, reading: LogReading, waits: Waits
) -> tuple[Culprit, ...]:
    """Return the culprits that the lines name, first the surest way of naming."""
    if root is None:
        return ()
    if root.failure is not None:
        return _raised(root.failure)
    named = _named(root, reading)
    if named:
        return named
    if root.match is not None and is_wait(root.match):
        return _late(reading, waits)
    return _itself(root, cause, reading)


def _named(root: Candidate, reading: LogReading) -> tuple[Culprit, ...]:
    """Return the ranks that the message itself names as missing."""
    fields = root.match.fields if root.match else {}
    for name in ("missing_ranks", "missing", "lagging_ranks", "ranks"):
        ranks = [int(number) for number in _NUMBERS.findall(fields.get(name, ""))]
        if ranks:
            return tuple(_culprit(rank, _phase_or(rank, reading, "did not come")) for rank in ranks)
    return ()


def _phase_or(rank: int, reading: LogReading, otherwise: str) -> str:
    for phase in last_phases(reading.phases):
        if phase.line.rank == rank and phase.fact in _DOING:
            return _DOING[phase.fact]
    return otherwise


def _late(reading: LogReading, waits: Waits) -> tuple[Culprit, ...]:
    """Return who kept the others waiting in a collective."""
    if waits.lagging:
        numbers = {w.number for w in waits.by_rank.values() if w.number is not None}
        most = max(numbers) if numbers else 0
        return tuple(
            _culprit(rank, _behind(waits, rank, most), _line(waits, rank))
            for rank in waits.lagging
        )
    if waits.odd:
        return tuple(
            _culprit(rank, f"was in {waits.by_rank[rank].op}", _line(waits, rank))
            for rank in waits.odd
        )
    busy = [
        phase
        for phase in last_phases(reading.phases)
        if phase.fact in _DOING
        and phase.line.rank is not None
        and phase.line.rank not in waits.by_rank
    ]
    if busy:
        return tuple(
            {
                p.line.rank: _culprit(p.line.rank, _DOING[p.fact], p.line)
                for p in busy
                if p.line.rank is not None
            }.values()
        )
    return _silent(waits)


def _silent(waits: Waits) -> tuple[Culprit, ...]:
    silent, complained = waits.silent, len(waits.by_rank)
    if not silent or len(silent) > MOST_SILENT or complained < max(2, len(silent)):
        return ()
    others = ranks_text(waits.by_rank)
    return tuple(_culprit(rank, f"says nothing while {others} wait") for rank in silent)


def _behind(waits: Waits, rank: int, most: int) -> str:
    wait = waits.by_rank.get(rank)
    if wait is None or wait.number is None:
        return f"is behind: {waits.queues[rank]} operations queued, others more"
    return f"is behind: at {wait.op} number {wait.number}, others at {most}"


def _line(waits: Waits, rank: int) -> LogLine | None:
    wait = waits.by_rank.get(rank)
    return wait.match.line if wait else None


def _raised(failure: LogFailure) -> tuple[Culprit, ...]:
    line, at = failure.line, failure.at
    if line.rank is None:
        return ()
    message = line.text[line.text.find(failure.exception) :][:160]
    doing = f"raised {message}"
    if at is None:
        return (_culprit(line.rank, doing, line),)
    return (Culprit(line.rank, line.host, doing, 0, at.file, at.line, at.function, at.text),)


def _itself(root: Candidate, cause: Cause, reading: LogReading) -> tuple[Culprit, ...]:
    """Return the rank that reports its own failure."""
    rank = rank_of(root.match) if root.match else None
    if rank is None or cause not in _OWN_FAULT:
        return ()
    fields = root.match.fields if root.match else {}
    at = next((f.at for f in reading.raised if f.line == root.line), None)
    doing = _ending(fields.get("exit_code", ""), fields.get("signal", ""))
    place = (at.file, at.line, at.function, at.text) if at else ("", 0, "", "")
    pid = fields.get("pid", "")
    return (
        Culprit(rank, root.line.host, doing, int(pid) if pid.isdigit() else 0, *place),
    )


def _ending(exit_code: str, signal: str) -> str:
    if signal:
        return f"was ended by signal {signal}"
    return f"ended with exit code {exit_code}" if exit_code else "reports the failure"


def _culprit(rank: int, doing: str, line: LogLine | None = None) -> Culprit:
    return Culprit(rank, line.host if line else "", doing)


def victims(
    reading: LogReading, waits: Waits, culprits: Sequence[Culprit], root: Candidate | None
) -> tuple[int, ...]:
    """Return the ranks that only wait or only report what another one did."""
    found = set(waits.by_rank)
    for match in reading.matches:
        if match.role == "cascade" and match.line.rank is not None:
            found.add(match.line.rank)
    found -= {culprit.rank for culprit in culprits}
    if root is not None and root.failure is not None and root.line.rank is not None:
        found.discard(root.line.rank)
    return tuple(sorted(found))
