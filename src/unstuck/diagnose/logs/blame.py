"""Who is to blame, from the logs alone: the rank that failed, is behind, or said nothing."""

import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from unstuck.diagnose.finding import blame
from unstuck.diagnose.logs.facts import last_phases
from unstuck.diagnose.logs.phrases import Words
from unstuck.diagnose.logs.positions import Waits, is_wait, rank_of
from unstuck.diagnose.logs.roots import Candidate
from unstuck.diagnose.text import ranks_text, signal_name
from unstuck.model import doing as d
from unstuck.model.logs import LogFailure, LogMatch, LogPhase, LogReading
from unstuck.model.rank import CodeLine
from unstuck.model.verdict import Cause, Culprit

MOST_SILENT = 4
LONGEST_MESSAGE = 160

_OWN_FAULT = {
    Cause.PROCESS_CRASH,
    Cause.OUT_OF_MEMORY,
    Cause.HARDWARE_FAULT,
    Cause.SOFTWARE_BUG,
    Cause.RESOURCE_CONTENTION,
}
_ENDED_ON_REQUEST = {"0", "-15", "15", "143"}
_WORK = frozenset(d.Work)
_SIGNALS = {signal.strsignal(one): one.name for one in signal.Signals}
"""By how the C library calls them: `Killed`, `Segmentation fault`."""
_NUMBERS = re.compile(r"\d+")
_LAGGING = re.compile(r"are the lagging ranks|but didn't join collective")


class Blame(Struct, frozen=True):
    """Finds the culprits of one job and says what each did."""

    reading: LogReading
    waits: Waits
    words: Words

    def culprits(self, root: Candidate | None, cause: Cause) -> tuple[Culprit, ...]:
        """Return the culprits that the lines name, first the surest way of naming."""
        if root is None:
            return self._ended() or self._lagging()
        if root.failure is not None:
            return self._raised(root.failure)
        named = self._named(root)
        if named:
            return named
        if root.match is not None and (is_wait(root.match) or "queue" in root.match.fields):
            return self._late()
        return self._itself(root, cause)

    def _ended(self) -> tuple[Culprit, ...]:
        """Return the ranks that the launcher says ended by themselves."""
        found: dict[int, Culprit] = {}
        for match in self.reading.matches:
            rank, code = rank_of(match), match.fields.get("exit_code", "")
            if rank is not None and code and code not in _ENDED_ON_REQUEST:
                found.setdefault(rank, self._did(rank, match.line.host, _ending(match.fields)))
        return tuple(found.values())

    def _named(self, root: Candidate) -> tuple[Culprit, ...]:
        """Return the ranks that the message itself names as missing."""
        fields = root.match.fields if root.match else {}
        for name in ("missing_ranks", "missing", "lagging_ranks", "ranks"):
            ranks = [int(number) for number in _NUMBERS.findall(fields.get(name, ""))]
            if ranks:
                busy = {p.line.rank: p for p in self._busy()}
                return tuple(self._absent(rank, busy.get(rank)) for rank in ranks)
        return ()

    def _absent(self, rank: int, phase: LogPhase | None) -> Culprit:
        if phase is None:
            return self._did(rank, "", d.Absent())
        return self._did(rank, phase.line.host, d.Busy(d.Work(phase.fact)))

    def _did(self, rank: int, host: str, activity: d.Activity, **known: Any) -> Culprit:
        return blame(rank, host, activity, lang=self.words.lang, **known)

    def _busy(self) -> list[LogPhase]:
        """Return what ranks were last seen doing that takes long."""
        return [
            phase
            for phase in last_phases(self.reading.phases)
            if phase.fact in _WORK and phase.line.rank is not None
        ]

    def _late(self) -> tuple[Culprit, ...]:
        """Return who kept the others waiting in a collective."""
        waits = self.waits
        if reported := self._lagging():
            return reported
        if waits.lagging:
            return tuple(self._of(rank, self._behind(rank)) for rank in waits.lagging)
        if waits.odd:
            return tuple(self._of(r, d.InCall(waits.by_rank[r].op)) for r in waits.odd)
        busy = [p for p in self._busy() if p.line.rank not in waits.by_rank]
        if busy:
            ranks = {p.line.rank: p for p in busy}
            return tuple(self._absent(rank, p) for rank, p in ranks.items() if rank is not None)
        return self._silent()

    def _lagging(self) -> tuple[Culprit, ...]:
        """Return the ranks that torch's own desync report says did not join."""
        found: set[int] = set()
        for match in self.reading.matches:
            if match.role == "diagnostic" and _LAGGING.search(match.line.text):
                found |= {int(rank) for rank in _NUMBERS.findall(match.fields.get("ranks", ""))}
        return tuple(self._did(rank, "", d.Absent()) for rank in sorted(found))

    def _silent(self) -> tuple[Culprit, ...]:
        silent, complained = self.waits.silent, len(self.waits.by_rank)
        if not silent or len(silent) > MOST_SILENT or complained < max(2, len(silent)):
            return ()
        others = d.Silent(ranks_text(self.waits.by_rank))
        return tuple(self._did(rank, "", others) for rank in silent)

    def _behind(self, rank: int) -> d.Activity:
        wait = self.waits.by_rank.get(rank)
        if wait is None or wait.number is None:
            return d.Queued(self.waits.queues[rank])
        most = max(w.number or 0 for w in self.waits.by_rank.values())
        return d.Behind(wait.op, wait.number, most)

    def _of(self, rank: int, activity: d.Activity) -> Culprit:
        wait = self.waits.by_rank.get(rank)
        return self._did(rank, wait.match.line.host if wait else "", activity)

    def _raised(self, failure: LogFailure) -> tuple[Culprit, ...]:
        line = failure.line
        if line.rank is None:
            return ()
        raised = d.Raised(_message(failure))
        return (self._did(line.rank, line.host, raised, **_place(failure.at)),)

    def _itself(self, root: Candidate, cause: Cause) -> tuple[Culprit, ...]:
        """Return the rank that reports its own failure."""
        rank = rank_of(root.match) if root.match else None
        if rank is None or root.match is None or cause not in _OWN_FAULT:
            return ()
        raised = next((f for f in self.reading.raised if f.line == root.line), None)
        pid = root.match.fields.get("pid", "")
        number = int(pid) if pid.isdecimal() else 0
        did = d.Raised(_message(raised)) if raised else _ending(root.match.fields)
        place = _place(raised.at if raised else None)
        first = self._did(rank, root.line.host, did, pid=number, **place)
        return (first, *(self._did(other, "", did) for other in self._alike(root.match, rank)))

    def _alike(self, match: LogMatch, rank: int) -> list[int]:
        """Return the other ranks that raised the same error."""
        error = match.fields.get("error")
        same = [
            rank_of(m)
            for m in self.reading.matches
            if error and m.record == match.record and m.fields.get("error") == error
        ]
        return sorted({other for other in same if other is not None and other != rank})


def _ending(fields: Mapping[str, str]) -> d.Activity:
    if name := fields.get("signal", ""):
        name = _SIGNALS.get(name, name.removeprefix("Signals."))
        return d.Killed(signal_name(int(name)) if name.isdecimal() else name)
    code = fields.get("exit_code", "")
    if not code.removeprefix("-").isdecimal():
        return d.Reports()
    return d.Exited(int(code)) if int(code) >= 0 else d.Killed(signal_name(-int(code)))


def _message(failure: LogFailure) -> str:
    text = failure.line.text
    return text[max(text.find(failure.exception), 0) :][:LONGEST_MESSAGE]


def _place(at: CodeLine | None) -> dict[str, str | int]:
    if at is None:
        return {}
    return {"file": at.file, "line": at.line, "function": at.function, "code": at.text}


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
