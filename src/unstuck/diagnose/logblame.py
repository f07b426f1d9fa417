"""Who is to blame, from the logs alone: the rank that failed, is behind, or said nothing."""

import re
from collections.abc import Mapping, Sequence

from unstuck.diagnose.logfacts import last_phases
from unstuck.diagnose.logroots import Candidate
from unstuck.diagnose.logwaits import Waits, is_wait, rank_of
from unstuck.diagnose.logwords import Words
from unstuck.diagnose.words import ranks_text
from unstuck.model.log import LogFailure, LogMatch, LogPhase, LogReading
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
_TOLD_TO_END = {"0", "-15", "15", "143"}
_NUMBERS = re.compile(r"\d+")
_LAGGING = re.compile(r"are the lagging ranks|but didn't join collective")


class Blame:
    """Finds the culprits of one job and says what each did."""

    def __init__(self, reading: LogReading, waits: Waits, words: Words) -> None:
        self._reading = reading
        self._waits = waits
        self._words = words

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
        for match in self._reading.matches:
            rank, code = rank_of(match), match.fields.get("exit_code", "")
            if rank is not None and code and code not in _TOLD_TO_END:
                found.setdefault(rank, Culprit(rank, match.line.host, self._ending(match.fields)))
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
            return Culprit(rank, "", self._words.did_not_come)
        return Culprit(rank, phase.line.host, self._words.doing[phase.fact])

    def _busy(self) -> list[LogPhase]:
        """Return what ranks were last seen doing that takes long."""
        return [
            phase
            for phase in last_phases(self._reading.phases)
            if phase.fact in self._words.doing and phase.line.rank is not None
        ]

    def _late(self) -> tuple[Culprit, ...]:
        """Return who kept the others waiting in a collective."""
        waits = self._waits
        if reported := self._lagging():
            return reported
        if waits.lagging:
            return tuple(self._of(rank, self._behind(rank)) for rank in waits.lagging)
        if waits.odd:
            words = self._words.was_in
            return tuple(self._of(r, words.format(op=waits.by_rank[r].op)) for r in waits.odd)
        busy = [p for p in self._busy() if p.line.rank not in waits.by_rank]
        if busy:
            ranks = {p.line.rank: p for p in busy}
            return tuple(self._absent(rank, p) for rank, p in ranks.items() if rank is not None)
        return self._silent()

    def _lagging(self) -> tuple[Culprit, ...]:
        """Return the ranks that torch's own desync report says did not join."""
        found: set[int] = set()
        for match in self._reading.matches:
            if match.role == "diagnostic" and _LAGGING.search(match.line.text):
                found |= {int(rank) for rank in _NUMBERS.findall(match.fields.get("ranks", ""))}
        return tuple(Culprit(rank, "", self._words.did_not_come) for rank in sorted(found))

    def _silent(self) -> tuple[Culprit, ...]:
        silent, complained = self._waits.silent, len(self._waits.by_rank)
        if not silent or len(silent) > MOST_SILENT or complained < max(2, len(silent)):
            return ()
        doing = self._words.silent.format(others=ranks_text(self._waits.by_rank))
        return tuple(Culprit(rank, "", doing) for rank in silent)

    def _behind(self, rank: int) -> str:
        wait = self._waits.by_rank.get(rank)
        if wait is None or wait.number is None:
            return self._words.queue.format(number=self._waits.queues[rank])
        most = max(w.number or 0 for w in self._waits.by_rank.values())
        return self._words.behind.format(op=wait.op, number=wait.number, most=most)

    def _of(self, rank: int, doing: str) -> Culprit:
        wait = self._waits.by_rank.get(rank)
        return Culprit(rank, wait.match.line.host if wait else "", doing)

    def _raised(self, failure: LogFailure) -> tuple[Culprit, ...]:
        line, at = failure.line, failure.at
        if line.rank is None:
            return ()
        doing = self._words.raised.format(message=_message(failure))
        return (Culprit(line.rank, line.host, doing, 0, *_place(at)),)

    def _itself(self, root: Candidate, cause: Cause) -> tuple[Culprit, ...]:
        """Return the rank that reports its own failure."""
        rank = rank_of(root.match) if root.match else None
        if rank is None or root.match is None or cause not in _OWN_FAULT:
            return ()
        raised = next((f for f in self._reading.raised if f.line == root.line), None)
        pid = root.match.fields.get("pid", "")
        number = int(pid) if pid.isdigit() else 0
        if raised is not None:
            doing = self._words.raised.format(message=_message(raised))
        else:
            doing = self._ending(root.match.fields)
        place = _place(raised.at if raised else None)
        first = Culprit(rank, root.line.host, doing, number, *place)
        return (first, *(Culprit(other, "", doing) for other in self._alike(root.match, rank)))

    def _alike(self, match: LogMatch, rank: int) -> list[int]:
        """Return the other ranks that raised the same error."""
        error = match.fields.get("error")
        same = [
            rank_of(m)
            for m in self._reading.matches
            if error and m.record == match.record and m.fields.get("error") == error
        ]
        return sorted({other for other in same if other is not None and other != rank})

    def _ending(self, fields: Mapping[str, str]) -> str:
        if signal := fields.get("signal", ""):
            return self._words.signal.format(signal=signal)
        if code := fields.get("exit_code", ""):
            return self._words.exit_code.format(code=code)
        return self._words.reports


def _message(failure: LogFailure) -> str:
    text = failure.line.text
    return text[max(text.find(failure.exception), 0) :][:LONGEST_MESSAGE]


def _place(at: CodeLine | None) -> tuple[str, int, str, str]:
    return (at.file, at.line, at.function, at.text) if at else ("", 0, "", "")


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
