"""Simulate the state of a large job in which one rank goes wrong.

All ranks run the same steps. Devices carry their operations out in order, and one completes
when all participants have come to it; hosts issue up to `ahead` operations more than their
device has completed. From the place of the fault the waiting spreads: `spread` finds for each
rank the operation it is stuck in. `snapshot` shows this as live watching would, and
`unstuck.lab.recordings` as flight-recorder dumps. The same seed gives the same job.
"""

import random
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from unstuck.lab.layout import Call, Layout
from unstuck.model.rank import (
    CodeLine,
    GroupProgress,
    Operation,
    Pace,
    PointToPoint,
    Process,
    RankState,
)
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause

NOW = 1_800_000_000.0
STALLED = 60.0
PER_HOST = 8
_MOST_PENDING = 8
_C10D = "/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
_PACE = Pace(gaps=100, typical=0.1, longest=0.2)
OPS = {"tp": "all_reduce", "ep": "all_to_all", "dp": "all_reduce", "world": "all_reduce"}
SIZES = {"tp": 4096, "ep": 512, "dp": 1 << 20, "world": 1}


class FaultKind(StrEnum):
    """What one rank may do wrong."""

    STUCK = "stuck"
    DEAD = "dead"
    STOPPED = "stopped"
    WRONG_OP = "wrong-op"
    INVERSION = "inversion"


CAUSES = {
    FaultKind.STUCK: Cause.BUSY_ELSEWHERE,
    FaultKind.DEAD: Cause.PROCESS_CRASH,
    FaultKind.STOPPED: Cause.PROCESS_STOPPED,
    FaultKind.WRONG_OP: Cause.COLLECTIVE_MISMATCH,
    FaultKind.INVERSION: Cause.ORDER_INVERSION,
}
"""The cause that a verdict must give for each."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One rank goes wrong at one of its calls; `at` counts the calls of all stages from 0."""

    kind: FaultKind
    rank: int
    at: int


@dataclass(frozen=True)
class Simulation:
    """A layout, a fault in it, and how far the hosts of the other ranks run ahead."""

    layout: Layout
    fault: Fault
    ahead: int = 0

    def call(self, number: int) -> Call:
        """Give the call of a number, over all steps."""
        return self.layout.step[number % len(self.layout.step)]


@dataclass(frozen=True, slots=True)
class Issued:
    """One call that a rank has issued: its number over all calls, and within its group."""

    call: Call
    number: int
    ordinal: int
    kind: str


def draw(
    seed: int,
    *,
    kinds: tuple[FaultKind, ...] = tuple(FaultKind),
    ahead: int = 0,
    experts: bool = False,
) -> Simulation:
    """Make up a job of 8 to some hundred ranks with one fault; the seed decides all.

    Example:
        diagnose(snapshot(draw(7, ahead=5))).verdict
    """
    dice = random.Random(seed)  # noqa: S311 - the same seed must give the same job
    kind = dice.choice(kinds)
    ep = dice.choice((2, 4)) if experts else 1
    layout = Layout(
        tp=dice.choice((2, 4, 8)),
        pp=dice.choice((1, 2, 4)),
        dp=ep * dice.choice((2, 3, 4)) if experts else dice.choice((3, 4, 6, 8)),
        ep=ep,
    )
    rank = dice.randrange(layout.size)
    return Simulation(layout, Fault(kind, rank, _place(dice, layout, kind, rank)), ahead)


def _place(dice: random.Random, layout: Layout, kind: FaultKind, rank: int) -> int:
    """Choose a call at which this fault by this rank really blocks, and shows whose it is."""
    step, stage = layout.step, layout.place(rank)[1]
    if kind is FaultKind.INVERSION:
        possible = [number for number, call in enumerate(step) if call.kind == "dp"]
    else:
        possible = [number for number, call in enumerate(step) if call.involves(stage)]
    if kind is FaultKind.WRONG_OP:
        # In a group of two nobody can tell who is wrong.
        possible = [n for n in possible if len(layout.participants(step[n], rank)) > 2]
    return dice.randrange(2, 5) * len(step) + dice.choice(possible)


def spread(simulation: Simulation) -> list[int]:
    """Find for each rank the number of the call that it cannot complete."""
    layout, fault = simulation.layout, simulation.fault
    stuck_at = [-1] * layout.size
    stuck_at[fault.rank] = fault.at
    late = [fault.rank]
    number = fault.at
    while len(late) < layout.size:
        call = simulation.call(number)
        done: set[int] = set()
        for rank in tuple(late):
            if rank in done or not call.involves(layout.place(rank)[1]):
                continue
            # Everybody who shares this call with somebody late waits in it.
            members = layout.participants(call, rank)
            done.update(members)
            for member in members:
                if stuck_at[member] < 0:
                    stuck_at[member] = number
                    late.append(member)
        number += 1
    return stuck_at


def waits(simulation: Simulation, rank: int) -> bool:
    """Tell whether a rank waits in an operation; the one at fault may do something else."""
    fault = simulation.fault
    return rank != fault.rank or fault.kind in (FaultKind.WRONG_OP, FaultKind.INVERSION)


def inverts(simulation: Simulation, rank: int) -> bool:
    """Tell whether a rank issues two operations in the wrong order."""
    fault = simulation.fault
    return rank == fault.rank and fault.kind is FaultKind.INVERSION


def issued(
    simulation: Simulation, stage: int, stuck_at: int, *, inverted: bool = False
) -> tuple[Issued, ...]:
    """List what a waiting rank has issued and not completed, in its own order."""
    ahead = simulation.ahead
    if not inverted:
        return tuple(_from(simulation, stage, stuck_at, ahead + 1))
    first, second, *more = _from(simulation, stage, stuck_at, max(ahead, 1) + 1)
    return (second, *((first, *more) if ahead else ()))


def calls_of(simulation: Simulation, stage: int, upto: int) -> list[Issued]:
    """List all calls of a stage before a number: what its ranks have completed."""
    count = sum(_counts(simulation, stage, upto).values())
    return _from(simulation, stage, 0, count)


def _from(simulation: Simulation, stage: int, number: int, most: int) -> list[Issued]:
    counts = Counter(_counts(simulation, stage, number))
    found: list[Issued] = []
    while len(found) < most:
        call = simulation.call(number)
        if call.involves(stage):
            kind = _kind(call, stage)
            counts[kind] += 1
            found.append(Issued(call, number, counts[kind], kind))
        number += 1
    return found


def _counts(simulation: Simulation, stage: int, upto: int) -> Counter[str]:
    steps, rest = divmod(upto, len(simulation.layout.step))
    counts: Counter[str] = Counter()
    for position, call in enumerate(simulation.layout.step):
        if call.involves(stage):
            counts[_kind(call, stage)] += steps + (position < rest)
    return counts


def _kind(call: Call, stage: int) -> str:
    """Name what is counted together: collectives per group, messages per peer and direction."""
    if call.kind != "hop":
        return call.kind
    return f"send {call.to}" if call.stage == stage else f"recv {call.stage}"


def snapshot(simulation: Simulation) -> Snapshot:
    """Show the job as live watching would see it a minute after the fault."""
    layout = simulation.layout
    stuck_at = spread(simulation)
    painter = _Painter(simulation)
    ranks = tuple(painter.state(rank, stuck_at[rank]) for rank in range(layout.size))
    hosts = range((layout.size + PER_HOST - 1) // PER_HOST)
    nodes = tuple(NodeState(f"host{i}-1", f"host{i}", 0.4) for i in hosts)
    return Snapshot(NOW, nodes, ranks, 0, layout.size)


class _Painter:
    """Builds rank states and shares every part that is equal between ranks."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._layout = simulation.layout
        self._kinds = tuple(
            kind
            for kind in ("tp", "ep", "dp", "world")
            if any(c.kind == kind for c in simulation.layout.step)
        )
        self._progress: dict[tuple[str, str, int, int], GroupProgress] = {}
        self._begun = cache(self._find_begun)

    def state(self, rank: int, stuck_at: int) -> RankState:
        fault = self._simulation.fault
        at_fault = rank == fault.rank
        stage = self._layout.place(rank)[1]
        done, begun = self._begun(
            stage,
            stuck_at,
            waiting=waits(self._simulation, rank),
            inverted=inverts(self._simulation, rank),
        )
        return RankState(
            rank=rank,
            host=f"host{rank // PER_HOST}",
            process=self._process(rank),
            attempt="a",
            world_size=self._layout.size,
            phase="run",
            beat_age=STALLED if at_fault and fault.kind is FaultKind.STOPPED else 0.1,
            stalled_for=STALLED,
            in_flight=bool(begun),
            pace=_PACE,
            groups=tuple(self._group(kind, rank, done, begun) for kind in self._kinds),
            p2p=self._messages(rank, begun),
            stack=self._stack(begun),
            recorder_age=0.5,
            stack_age=0.5,
        )

    def _find_begun(
        self, stage: int, stuck_at: int, *, waiting: bool, inverted: bool
    ) -> tuple[Counter[str], tuple[Issued, ...]]:
        """Count what was completed and list what was issued; equal for all ranks but one."""
        done = _counts(self._simulation, stage, stuck_at)
        if not waiting:
            return done, ()
        return done, issued(self._simulation, stage, stuck_at, inverted=inverted)

    def _process(self, rank: int) -> Process:
        pid = 1000 + rank
        fault = self._simulation.fault
        if waits(self._simulation, rank):
            return Process(pid, "S", "futex_wait_queue")
        if fault.kind is FaultKind.DEAD:
            return Process(pid, "gone", exit_code=-9, gone_for=STALLED)
        if fault.kind is FaultKind.STOPPED:
            return Process(pid, "T", "do_signal_stop")
        return Process(pid, "S", "hrtimer_nanosleep")

    def _stack(self, begun: tuple[Issued, ...]) -> tuple[CodeLine, ...]:
        if not begun:
            return _ASLEEP
        if self._simulation.ahead:
            return _SYNCS
        return _inside(
            begun[0].kind.split()[0] if begun[0].call.kind == "hop" else OPS[begun[0].kind]
        )

    def _group(
        self, kind: str, rank: int, done: Counter[str], begun: tuple[Issued, ...]
    ) -> GroupProgress:
        wrong = rank == self._simulation.fault.rank
        wrong = wrong and self._simulation.fault.kind is FaultKind.WRONG_OP
        group = self._layout.group(kind, rank)
        key = (group.name, "wrong" if wrong else "", done[kind], id(begun))
        found = self._progress.get(key)
        if found is None:
            pending = self._operations(group.name, kind, begun, wrong=wrong)
            found = GroupProgress(
                name=group.name,
                ranks=group.ranks,
                enqueued=done[kind] + len(pending),
                completed=done[kind],
                backend="nccl" if self._simulation.ahead else "gloo",
                pending=pending[:_MOST_PENDING],
            )
            self._progress[key] = found
        return found

    def _operations(
        self, name: str, kind: str, begun: tuple[Issued, ...], *, wrong: bool
    ) -> tuple[Operation, ...]:
        return tuple(
            Operation(
                group=name,
                number=one.ordinal,
                op="broadcast" if wrong and not position else OPS[kind],
                sizes=((SIZES[kind],),),
                dtypes=("Float",),
                age=STALLED - position / 1000,
            )
            for position, one in enumerate(begun)
            if one.kind == kind
        )

    def _messages(self, rank: int, begun: tuple[Issued, ...]) -> tuple[PointToPoint, ...]:
        if not any(one.call.kind == "hop" for one in begun):
            return ()
        t, _, d = self._layout.place(rank)
        group = self._layout.group("hop", rank).name
        return tuple(
            PointToPoint(
                kind=one.kind.split()[0],
                group=group,
                peer=self._layout.rank(t, int(one.kind.split()[1]), d),
                ordinal=one.ordinal,
                age=STALLED - position / 1000,
            )
            for position, one in enumerate(begun)
            if one.call.kind == "hop"
        )[:_MOST_PENDING]


_ASLEEP = (CodeLine("train.py", 31, "evaluate", "time.sleep(3600)", user=True),)
_SYNCS = (CodeLine("train.py", 24, "train", "loss.item()", user=True),)


@cache
def _inside(function: str) -> tuple[CodeLine, ...]:
    """Give the stack of a rank that is in a function of torch.distributed."""
    return (
        CodeLine(_C10D, 2800, function),
        CodeLine("train.py", 20, "train", f"dist.{function}(x)", user=True),
    )
