"""Compare what the ranks of a job say they wait in: who is behind, who is at another operation."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from unstuck.model.bounds import MOST_RANKS
from unstuck.model.logs import LogFact, LogMatch, LogReading

FIRST_NUMBER = 2
SMALL_NUMBER = 100
FARTHEST = 64
"""Numbers farther apart are those of different groups: nobody runs so far ahead in one."""
FAILURES = {"root", "either", "cascade"}
"""Roles of lines in which something failed, here or elsewhere."""


class Wait(Struct, frozen=True):
    """One rank's own word on the collective that timed out."""

    rank: int
    match: LogMatch
    number: int | None
    op: str
    size: tuple[str, str]


class Waits:
    """The waits of all ranks, compared."""

    def __init__(self, reading: LogReading) -> None:
        self.by_rank = _by_rank(reading.matches)
        counted = max([reading.world_size, *(rank + 1 for rank in _ranks(reading))])
        self.world_size = min(counted, MOST_RANKS)
        self.unranked = [m for m in reading.matches if is_wait(m) and rank_of(m) is None]
        self.queues = _queues(reading.matches)
        self.complained = set(self.by_rank) or {
            rank
            for match in reading.matches
            if match.role in FAILURES and (rank := rank_of(match)) is not None
        }
        self.alone = len(self.complained) == 1 and reading.distributed and not reading.world_size
        self.facts = self._facts()

    @property
    def silent(self) -> tuple[int, ...]:
        """Ranks that did not complain while others did."""
        return tuple(rank for rank in range(self.world_size) if rank not in self.by_rank)

    @property
    def lagging(self) -> tuple[int, ...]:
        """Ranks whose number is behind the others', or whose queue is shorter."""
        numbers = {rank: w.number for rank, w in self.by_rank.items() if w.number is not None}
        return (_least(numbers) if self.one_group else ()) or _least(self.queues)

    @property
    def one_group(self) -> bool:
        """Whether the waits can be those of one group, so that they may be compared."""
        groups = {w.match.fields.get("pg", "") for w in self.by_rank.values()}
        numbers = [w.number for w in self.by_rank.values() if w.number is not None]
        return len(groups) == 1 and (not numbers or max(numbers) - min(numbers) <= FARTHEST)

    @property
    def odd(self) -> tuple[int, ...]:
        """The minority that is at another operation or size; both sides where it is a tie."""
        kinds = {rank: (w.op, w.size) for rank, w in self.by_rank.items()}
        counts = Counter(kinds.values())
        if len(counts) < 2 or not self.one_group:
            return ()
        (usual, most), (_, second) = counts.most_common(2)
        if most == second:
            return tuple(sorted(kinds))
        return tuple(sorted(rank for rank, kind in kinds.items() if kind != usual))

    def _facts(self) -> frozenset[LogFact]:
        facts: set[LogFact] = set()
        if len(set(self.queues.values())) > 1:
            facts.add(LogFact.QUEUE_DIFFERS)
        waits = [*self.by_rank.values(), *(_wait(-1, match) for match in self.unranked)]
        facts |= _operation_facts(waits)
        if self.by_rank:
            facts |= self._comparison()
        if self.complained and self.complained < set(range(self.world_size)):
            facts.add(LogFact.SOME_SILENT)
        return frozenset(facts)

    def _comparison(self) -> set[LogFact]:
        facts: set[LogFact] = set()
        waits = list(self.by_rank.values())
        if not self.one_group:
            return facts
        if len({w.number for w in waits if w.number is not None}) > 1:
            facts.add(LogFact.NUMBER_DIFFERS)
        if len({w.op for w in waits}) > 1:
            facts.add(LogFact.OP_DIFFERS)
        elif not facts and len({w.size for w in waits if any(w.size)}) > 1:
            facts.add(LogFact.SIZE_DIFFERS)
        if not facts and len(waits) > 1 and self._without_rank_0(waits):
            facts.add(LogFact.RANK_0_SILENT)
        if set(self.by_rank) == {0}:
            facts.add(LogFact.RANK_0_ALONE)
        if not facts and len(waits) == self.world_size > 1:
            facts.add(LogFact.ALL_WAIT)
        return facts

    def _without_rank_0(self, waits: list[Wait]) -> bool:
        """Tell whether rank 0 alone may keep the others waiting; at first the network may, too."""
        numbers = [w.number for w in waits if w.number is not None]
        barrier = all(w.size == ("1", "1") for w in waits) and self.silent == (0,)
        worked = bool(numbers) and min(numbers) > FIRST_NUMBER
        return 0 not in self.by_rank and (worked or barrier)


def is_wait(match: LogMatch) -> bool:
    """Tell whether a match is a rank's own word on a collective that did not end."""
    if match.role not in FAILURES or "op" not in match.fields:
        return False
    return bool({"timeout_ms", "elapsed_ms", "numel_in"} & match.fields.keys())


def rank_of(match: LogMatch) -> int | None:
    """Return the rank that a match speaks of, else the one that speaks."""
    for name in ("rank", "global_rank"):
        if match.fields.get(name, "").isdecimal():
            return int(match.fields[name])
    local = match.fields.get("local_rank", "")
    return int(local) if match.line.rank is None and local.isdecimal() else match.line.rank


def _operation_facts(waits: list[Wait]) -> set[LogFact]:
    numbers = [w.number for w in waits if w.number is not None]
    ops = [w.op.upper() for w in waits]
    reduced = [w.size for w in waits if "REDUCE" in w.op.upper()]
    holds = {
        LogFact.ONE_ELEMENT: any(w.size == ("1", "1") for w in waits),
        LogFact.GATHER_OP: any("GATHER" in op or "BROADCAST" in op for op in ops),
        LogFact.SHARD_GATHER: any("ALLGATHER_BASE" in op for op in ops),
        LogFact.LARGE_REDUCE: any(_many(part) for size in reduced for part in size),
        LogFact.FIRST_COLLECTIVE: bool(numbers) and max(numbers) <= FIRST_NUMBER,
        LogFact.HAD_WORKED: bool(numbers) and min(numbers) > FIRST_NUMBER,
        LogFact.EARLY: bool(numbers) and max(numbers) < SMALL_NUMBER,
    }
    return {fact for fact, true in holds.items() if true}


def _many(size: str) -> bool:
    return size.isdecimal() and int(size) > 1


def _least(numbers: dict[int, int]) -> tuple[int, ...]:
    if len(set(numbers.values())) < 2:
        return ()
    least = min(numbers.values())
    return tuple(sorted(rank for rank, number in numbers.items() if number == least))


def _ranks(reading: LogReading) -> set[int]:
    spoken_of = {rank for match in reading.matches if (rank := rank_of(match)) is not None}
    return spoken_of | set(reading.ranks)


def _wait(rank: int, match: LogMatch) -> Wait:
    fields = match.fields
    size = (fields.get("numel_in", ""), fields.get("numel_out", ""))
    return Wait(rank, match, _whole(fields.get("seq")), fields.get("op", ""), size)


def _by_rank(matches: Iterable[LogMatch]) -> dict[int, Wait]:
    """Return the oldest wait of each rank: later ones repeat it, or are queued behind it."""
    found: dict[int, Wait] = {}
    for match in matches:
        rank = rank_of(match)
        if rank is not None and is_wait(match):
            known = found.get(rank)
            wait = _wait(rank, match)
            if known is None or _is_older(wait, known):
                found[rank] = wait
    return found


def _is_older(wait: Wait, known: Wait) -> bool:
    if wait.number is None or known.number is None or wait.number == known.number:
        return len(known.match.fields) < len(wait.match.fields)
    return wait.number < known.number


def _queues(matches: Iterable[LogMatch]) -> dict[int, int]:
    found: dict[int, int] = {}
    for match in matches:
        rank, queue = rank_of(match), _whole(match.fields.get("queue"))
        if rank is not None and queue is not None:
            found.setdefault(rank, queue)
    return found


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
