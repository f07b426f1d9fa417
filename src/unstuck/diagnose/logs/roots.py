"""Roots apart from cascades: which line of all the logs is the failure itself.

Every candidate is a line; the earliest one counts, but order alone does not decide:

* lines that come close together are one burst, and in a burst a root goes before a line
  that only reports a peer;
* a warning of the start-up that the job survived is no failure;
* of two start-up warnings the one that says why goes before the one that says that;
* a launcher's report of how a process ended comes after what ended it;
* a line that says why a rank could not come goes before one that only waited for it.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from unstuck.diagnose.logs.positions import is_wait
from unstuck.model.logs import LogFact, LogFailure, LogLine, LogMatch, LogPhase, LogRecord

BURST_SECONDS = 90.0
BURST_LINES = 400

_STARTUP = {"rendezvous", "network", "connection", "init", "setup", "configuration"}
_ABOUT_OTHERS = {"crash", "timeout", "teardown"}
_ENDINGS = {"crash", "exit", "signal", "teardown"}
_REASONS = {"network", "hardware", "memory", "storage"}


class Candidate(Struct, frozen=True):
    """A line that may be the failure itself: a match, or an exception in no record."""

    line: LogLine
    time: float | None
    match: LogMatch | None = None
    failure: LogFailure | None = None
    record: LogRecord | None = None
    """Of the match."""

    @property
    def role(self) -> str:
        """The record's role; an exception in no record is a root for its own rank."""
        return self.match.role if self.match else "root"

    @property
    def category(self) -> str:
        """The record's category; empty without a record."""
        return self.record.category if self.record else ""


def ordered(
    matches: Iterable[LogMatch],
    failures: Iterable[LogFailure] = (),
    records: Mapping[str, LogRecord] | None = None,
) -> list[Candidate]:
    """Return matches and unknown exceptions in the order in which they happened.

    In one file that is the order of the lines. Across files it is the time; a line without
    one has the time of the line before it.
    """
    known = records or {}
    found = [Candidate(m.line, None, match=m, record=known.get(m.record)) for m in matches]
    found += [Candidate(f.line, None, failure=f) for f in failures]
    found.sort(key=lambda c: (c.line.file, c.line.line))
    timed: list[Candidate] = []
    last: dict[str, float] = {}
    for candidate in found:
        line = candidate.line
        if line.time is not None:
            last[line.file] = line.time
        timed.append(structs.replace(candidate, time=last.get(line.file)))
    if len({c.line.file for c in timed}) > 1:
        timed.sort(key=lambda c: (c.time is None, c.time or 0.0))
    return timed


def without_survived(
    candidates: Sequence[Candidate], phases: Sequence[LogPhase] = ()
) -> list[Candidate]:
    """Leave out the warnings of the start-up after which the job went on."""
    possible = [c for c in candidates if c.role in {"root", "either"}]
    moved: dict[str, int] = {}
    for phase in phases:
        if phase.fact is LogFact.TRAINING:
            moved[phase.line.file] = max(moved.get(phase.line.file, 0), phase.line.line)
    return [c for c in candidates if not _survived(c, possible, moved)]


def pick(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the failure itself, or None where only consequences are left."""
    possible = [c for c in candidates if c.role in {"root", "either"}]
    if not possible:
        return None
    burst = [c for c in possible if _close(possible[0], c)]
    # A line that reports what a peer did, or did not do, may be the first by chance.
    if possible[0].role == "either" and possible[0].category not in _ABOUT_OTHERS:
        return _most_specific(burst)
    roots = [c for c in burst if c.role == "root" and not _only_ending(c, burst)]
    if roots and roots[0].category == "timeout":
        return next((c for c in roots if c.category in _REASONS), roots[0])
    return roots[0] if roots else burst[0]


def _most_specific(burst: Sequence[Candidate]) -> Candidate:
    """Return the line that says why the start failed where the first only says that it did."""
    first = burst[0]
    if first.category != "rendezvous":
        return first
    reason = next((c for c in burst if (c.role, c.category) == ("either", "network")), first)
    return reason if _kinds(reason) < _kinds(first) else first


def _kinds(candidate: Candidate) -> int:
    return len({cause.cause for cause in candidate.record.causes}) if candidate.record else 0


def _close(first: Candidate, other: Candidate) -> bool:
    if first.time is not None and other.time is not None:
        return abs(other.time - first.time) <= BURST_SECONDS
    if first.line.file == other.line.file:
        return abs(other.line.line - first.line.line) <= BURST_LINES
    return True


def _survived(candidate: Candidate, others: Sequence[Candidate], moved: Mapping[str, int]) -> bool:
    """Tell whether a start-up warning was followed by training, or by another failure later."""
    if candidate.role != "either" or candidate.category not in _STARTUP:
        return False
    last = [c for c in others if c.record is candidate.record][-1]
    if moved.get(last.line.file, 0) > last.line.line:
        return True
    return any(c.match and c.record is not candidate.record and not _close(last, c) for c in others)


def _only_ending(candidate: Candidate, burst: Sequence[Candidate]) -> bool:
    """Tell whether a process's end is reported after a timeout that explains it."""
    before = burst[: burst.index(candidate)]
    ending = candidate.category in _ENDINGS
    return ending and any(c.match is not None and is_wait(c.match) for c in before)
