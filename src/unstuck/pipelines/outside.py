"""The journey of a job that was not started by us: look from outside, diagnose, say what is unseen.

    processes -> looks, some seconds apart -> snapshot -> diagnose -> advise

The ladder is that of a watched job. What differs is what it gets: stacks instead of counters.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from unstuck.clock import SYSTEM, Clock
from unstuck.diagnose.diagnose import diagnose
from unstuck.diagnose.text import moment, ranks_text, seconds_text
from unstuck.diagnose.thresholds import GRACE, START_UP
from unstuck.explain.advice.advice import advise
from unstuck.model.controls import Controls
from unstuck.model.rank import Phase, Process, ProcessState, RankState
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause, Confidence, Evidence, Role, Verdict
from unstuck.observe.outside import dump_files, nccl_ras
from unstuck.observe.outside.calls import DEFAULT, Call
from unstuck.observe.outside.looks import Looks, host_name
from unstuck.observe.outside.rank_processes import RankProcess, uses_nccl

BETWEEN = 1.0
"""Seconds between two looks."""
LONGEST = 25.0
"""Seconds of watching after which an answer is given in any case: more than the patience with a
job whose pace is not known."""
_INFERRED = (Cause.COLLECTIVE_MISMATCH, Cause.ORDER_INVERSION, Cause.TRANSPORT_STALL)


class Seen(Struct, frozen=True):
    """What one machine shows of a job; several of them make the whole."""

    host: str
    job: str
    ranks: tuple[RankState, ...]
    calls: dict[int, Call | None]
    moved: tuple[int, ...]
    """Ranks whose main thread went on while they were looked at."""
    problems: tuple[str, ...] = ()
    counted: bool = False
    """The flight recorder's counters are among it."""
    by_nccl: tuple[str, ...] = ()
    """What NCCL says of it."""


class Attached(Struct, frozen=True):
    """The answer."""

    job: str
    verdict: Verdict | None
    moves: bool
    ranks: tuple[RankState, ...]
    unseen: tuple[str, ...]
    """What could not be seen, and what would show it."""
    seconds: float

    @property
    def is_blind(self) -> bool:
        """Tell whether not a single stack could be read."""
        return not any(state.stack for state in self.ranks)


class Watch:
    """The ranks of one job on this machine, looked at again and again."""

    def __init__(
        self, ranks: Sequence[RankProcess], *, native: bool = False, clock: Clock = SYSTEM
    ) -> None:
        self._processes = ranks
        self._clock = clock
        self._looks = Looks(ranks, host_name(), native=native)

    def seen(self) -> Seen:
        """Wait a moment, look again, and return what is known by now."""
        self._clock.sleep(BETWEEN)
        self._looks.again()
        looked = self._looks.states()
        states = dump_files.add(looked, self._processes, self._clock.time())
        gone = _gone_here(self._processes, max((one.stalled_for for one in states), default=0.0))
        return Seen(
            host=host_name(),
            job=self._processes[0].job,
            ranks=(*states, *gone),
            calls=self._looks.calls(),
            moved=tuple(one.process.rank for one in self._looks.watched if one.moved),
            problems=tuple(_problems(self._looks)),
            counted=states != looked,
            by_nccl=_account_of(self._processes),
        )


def judge(
    look: Callable[[], Sequence[Seen]], *, patience: float = 0.0, clock: Clock = SYSTEM
) -> Attached:
    """Look until there is a verdict, until all ranks have moved, or for 25 seconds.

    Example:
        watch = Watch(find([4711])["127.0.0.1:29500"])
        judge(lambda: [watch.seen()]).verdict
    """
    began = clock.monotonic()
    while True:
        parts = look()
        lasted = clock.monotonic() - began
        answer = _answer(parts, patience, clock.time(), lasted)
        over = lasted + BETWEEN > (1.25 * patience + GRACE if patience else LONGEST)
        if answer.verdict or answer.moves or over or answer.is_blind:
            return answer


def _answer(parts: Sequence[Seen], patience: float, now: float, lasted: float) -> Attached:
    snapshot = snapshot_of(parts, patience, now)
    calls = {rank: call for part in parts for rank, call in part.calls.items()}
    moved = {rank for part in parts for rank in part.moved}
    seen = [state for state in snapshot.ranks if state.process.pid and not state.unobserved]
    counted = all(part.counted for part in parts)
    unclear = not counted and _is_unclear(seen, calls)
    found = None if unclear else diagnose(snapshot).verdict
    limit = patience or START_UP
    if unclear and min(state.stalled_for for state in seen) >= limit:
        found = _cannot_tell(seen, calls, now)
    if found is not None and not counted:
        found = _qualified(found)
    if found is not None:
        said = dict.fromkeys(line for part in parts for line in part.by_nccl)
        found = replace(
            found, evidence=found.evidence + tuple(Evidence("NCCL RAS", line) for line in said)
        )
    moves = found is None and bool(seen) and moved >= {state.rank for state in seen}
    return Attached(
        job=parts[0].job,
        verdict=advise(found) if found else None,
        moves=moves,
        ranks=snapshot.ranks,
        unseen=tuple(_unseen(parts, snapshot, patience, counted=counted, moves=moves)),
        seconds=round(lasted, 1),
    )


def _account_of(processes: Sequence[RankProcess]) -> tuple[str, ...]:
    """Ask NCCL, if the job has any of it: an answer may take some seconds."""
    if not any(uses_nccl(one.pid) for one in processes):
        return ()
    try:
        account = nccl_ras.read(*processes[0].ras)
    except nccl_ras.RasError as error:
        return (f"gives no account: {error}",)
    return tuple(nccl_ras.told(account, {one.pid: one.rank for one in processes}))


def snapshot_of(parts: Sequence[Seen], patience: float, now: float) -> Snapshot:
    """Put the machines together; ranks that are on none of them are there, and unobserved."""
    ranks = {state.rank: state for part in parts for state in part.ranks}
    size = max((state.world_size for state in ranks.values()), default=0) or len(ranks)
    for rank in range(size):
        if rank not in ranks:
            ranks[rank] = RankState(
                rank, "", Process(0), unobserved="it is on a machine that was not looked at"
            )
    nodes = tuple(NodeState(part.host, part.host) for part in parts)
    waited = max((one.stalled_for for one in ranks.values() if _waits(one)), default=0.0)
    ordered = tuple(_not_arrived(ranks[rank], waited) for rank in sorted(ranks))
    controls = Controls(patience=patience)
    return Snapshot(now, nodes, ordered, world_size=size, hub=host_name(), controls=controls)


def _waits(state: RankState) -> bool:
    return state.in_flight or state.phase is Phase.INIT


def _not_arrived(state: RankState, waited: float) -> RankState:
    """Who is in no operation has not arrived at one for as long as others wait in theirs."""
    if _waits(state) or not state.stack:
        return state
    return replace(state, stalled_for=max(state.stalled_for, waited))


def _gone_here(processes: Sequence[RankProcess], waited: float) -> list[RankState]:
    """Name the ranks that the launcher of this machine started and that have no process."""
    first = processes[0]
    base = first.rank - first.local_rank
    here = range(base, base + first.local_size)
    known = {one.rank for one in processes}
    return [
        RankState(
            rank,
            host_name(),
            Process(0, ProcessState.GONE, gone_for=waited),
            world_size=first.world_size,
        )
        for rank in here
        if rank not in known and rank < (first.world_size or rank + 1)
    ]


def _is_unclear(seen: Sequence[RankState], calls: dict[int, Call | None]) -> bool:
    """Tell whether all ranks wait, and stacks do not say whether in one and the same call."""
    inside = [calls.get(state.rank) for state in seen if state.in_flight]
    if not inside or len(inside) < len(seen):
        return False
    found = [call for call in inside if call and not call.message]
    sure = all(call.exact and call.group == DEFAULT for call in found)
    places = {state.places for state in seen}
    return bool(found) and not sure and (len(found) < len(inside) or len(places) > 1)


def _cannot_tell(seen: Sequence[RankState], calls: dict[int, Call | None], now: float) -> Verdict:
    waited = min(state.stalled_for for state in seen)
    ranks = tuple(state.rank for state in seen)
    return Verdict(
        cause=Cause.UNKNOWN,
        confidence=Confidence.POSSIBLE,
        culprits=(),
        victims=ranks,
        since=moment(now - waited),
        evidence=tuple(
            Evidence(
                f"rank {state.rank}: stack",
                f"in {call.op} at {state.places[0] if state.places else 'an unknown line'}"
                f" for {seconds_text(state.stalled_for)}",
                Role.VICTIM,
            )
            for state in seen
            if (call := calls.get(state.rank))
        ),
        summary="All ranks wait in operations of different groups; stacks alone do not tell which "
        "of them wait for each other.",
        because="every rank is in a collective, a send or a receive, and which groups these belong "
        "to is not visible from outside",
        stalled_seconds=waited,
        made_at=moment(now),
    )


def _qualified(verdict: Verdict) -> Verdict:
    """Say no more than stacks show: they count nothing."""
    if verdict.cause not in _INFERRED:
        return verdict
    sure = verdict.confidence is Confidence.CERTAIN
    return replace(
        verdict,
        confidence=Confidence.LIKELY if sure else verdict.confidence,
        because=f"{verdict.because}; seen in their stacks, no flight recorder was read",
    )


def _problems(looks: Looks) -> list[str]:
    by_reason: dict[tuple[str, str], list[int]] = {}
    for rank, stacks in looks.problems.items():
        by_reason.setdefault((stacks.problem, stacks.hint), []).append(rank)
    return [
        f"no stack of {ranks_text(ranks)}: {problem}" + (f"; {hint}" if hint else "")
        for (problem, hint), ranks in by_reason.items()
    ]


def _unseen(
    parts: Sequence[Seen], snapshot: Snapshot, patience: float, *, counted: bool, moves: bool
) -> list[str]:
    found = [problem for part in parts for problem in part.problems]
    if away := [state.rank for state in snapshot.ranks if not state.host]:
        found.append(f"{ranks_text(away)}: on another machine; name it with -H HOST")
    if moves:
        return found
    if not counted:
        found.append(
            "how many operations each rank has called, and in which group: only the flight "
            "recorder knows (unstuck run, or a dump)"
        )
    if not patience:
        found.append(
            f"how long a step of this job usually takes: waiting for {START_UP:.0f} s counts as a "
            "stall (--patience)"
        )
    return found
