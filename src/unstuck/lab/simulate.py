"""Simulate the state of a large job in which one rank goes wrong.

All ranks run the same steps. Devices execute their operations in order, and an operation completes
when all participants have arrived; hosts issue up to `ahead` operations more than their device has
completed. From the faulty rank the waiting spreads: `spread` finds the operation in which each rank
is stuck. `snapshot` shows this as live watching would, and `unstuck.lab.recordings` as
flight-recorder dumps. The same seed gives the same job.
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
    Phase,
    PointToPoint,
    Process,
    ProcessState,
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
    """What can go wrong on one rank."""

    STUCK = "stuck"
    DEAD = "dead"
    STOPPED = "stopped"
    WRONG_OP = "wrong-op"
    INVERSION = "inversion"
    GPU_STOPPED = "gpu-stopped"
    """Its device reports nothing as completed any more, and soon takes part in nothing."""
    TRANSPORT = "transport"
    """Nobody goes wrong: one of its operations does not complete."""


ON_DEVICE = (FaultKind.GPU_STOPPED, FaultKind.TRANSPORT)
ON_HOST = tuple(kind for kind in FaultKind if kind not in ON_DEVICE)
_WAITING = (FaultKind.WRONG_OP, FaultKind.INVERSION, *ON_DEVICE)
CAUSES = {
    FaultKind.STUCK: Cause.BUSY_ELSEWHERE,
    FaultKind.DEAD: Cause.PROCESS_CRASH,
    FaultKind.STOPPED: Cause.PROCESS_STOPPED,
    FaultKind.WRONG_OP: Cause.COLLECTIVE_MISMATCH,
    FaultKind.INVERSION: Cause.ORDER_INVERSION,
    FaultKind.GPU_STOPPED: Cause.HARDWARE_FAULT,
    FaultKind.TRANSPORT: Cause.TRANSPORT_STALL,
}
"""The cause that the verdict must name for each."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One rank goes wrong at one of its calls; `at` counts the calls of all stages from 0."""

    kind: FaultKind
    rank: int
    at: int
    slip: int = 0
    """A stopped device: how many of its operations before that the others completed without it.
    A transport stall: how many members of the operation complete it all the same."""


@dataclass(frozen=True)
class Simulation:
    """A layout, a fault in it, and how far the hosts of the other ranks run ahead."""

    layout: Layout
    fault: Fault
    ahead: int = 0

    def call(self, number: int) -> Call:
        """Return the call with this number, counted over all steps."""
        return self.layout.step[number % len(self.layout.step)]


@dataclass(frozen=True, slots=True)
class Issued:
    """A call that a rank has issued: its number among all calls, and within its group."""

    call: Call
    number: int
    ordinal: int
    kind: str


def draw(
    seed: int,
    *,
    kinds: tuple[FaultKind, ...] = ON_HOST,
    slip: int = 0,
    ahead: int = 0,
    experts: bool = False,
) -> Simulation:
    """Make up a job of 8 to a few hundred ranks with one fault; the seed decides everything.

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
    return Simulation(layout, Fault(kind, rank, _place(dice, layout, kind, rank), slip), ahead)


def _place(dice: random.Random, layout: Layout, kind: FaultKind, rank: int) -> int:
    """Choose a call at which the fault really blocks the job and can be traced to this rank."""
    step, stage = layout.step, layout.place(rank)[1]
    if kind is FaultKind.INVERSION:
        possible = [number for number, call in enumerate(step) if call.kind == "dp"]
    else:
        possible = [number for number, call in enumerate(step) if call.involves(stage)]
    if kind is FaultKind.WRONG_OP:
        # In a group of two it cannot be told which one is wrong.
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
            # Every rank that shares this call with a late one waits in it.
            members = layout.participants(call, rank)
            done.update(members)
            for member in members:
                if stuck_at[member] < 0:
                    stuck_at[member] = number
                    late.append(member)
        number += 1
    if fault.kind is FaultKind.TRANSPORT and fault.slip:
        _tear(simulation, stuck_at)
    return stuck_at


def _tear(simulation: Simulation, stuck_at: list[int]) -> None:
    """Let some members complete the operation that stalls: they wait in the next one."""
    layout, fault = simulation.layout, simulation.fault
    members = layout.participants(simulation.call(fault.at), fault.rank)
    for rank in [one for one in members if one != fault.rank][: fault.slip]:
        stage = layout.place(rank)[1]
        stuck_at[rank] = _from(simulation, stage, fault.at + 1, 1)[0].number


def completed_upto(simulation: Simulation, rank: int, stuck_at: int) -> tuple[int, int]:
    """Return up to which call a rank's device has completed, and how many calls that is too few."""
    fault = simulation.fault
    if rank != fault.rank or fault.kind is not FaultKind.GPU_STOPPED:
        return stuck_at, 0
    before = calls_of(simulation, simulation.layout.place(rank)[1], stuck_at)[-fault.slip :]
    return (before[0].number, len(before)) if fault.slip and before else (stuck_at, 0)


def waits(simulation: Simulation, rank: int) -> bool:
    """Tell whether a rank waits in an operation; the faulty one may be doing something else."""
    fault = simulation.fault
    return rank != fault.rank or fault.kind in _WAITING


def inverts(simulation: Simulation, rank: int) -> bool:
    """Tell whether a rank issues two operations in the wrong order."""
    fault = simulation.fault
    return rank == fault.rank and fault.kind is FaultKind.INVERSION


def issued(
    simulation: Simulation, stage: int, stuck_at: int, *, inverted: bool = False, more: int = 0
) -> tuple[Issued, ...]:
    """List what a waiting rank has issued and not completed, in the order it issued them."""
    ahead = simulation.ahead + more
    if not inverted:
        return tuple(_from(simulation, stage, stuck_at, ahead + 1))
    first, second, *rest = _from(simulation, stage, stuck_at, max(ahead, 1) + 1)
    return (second, *((first, *rest) if ahead else ()))


def calls_of(simulation: Simulation, stage: int, upto: int) -> list[Issued]:
    """List all calls of a stage before a number, which its ranks have completed."""
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
    """Name the counter of a call: collectives per group, messages per peer and direction."""
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
    """Builds rank states, sharing every part that is the same on several ranks."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._layout = simulation.layout
        self._kinds = tuple(
            kind
            for kind in ("tp", "ep", "dp", "world")
            if any(c.kind == kind for c in simulation.layout.step)
        )
        device = simulation.ahead or simulation.fault.kind in ON_DEVICE
        self._backend = "nccl" if device else "gloo"
        self._progress: dict[tuple[str, str, int, int], GroupProgress] = {}
        self._begun = cache(self._find_begun)

    def state(self, rank: int, stuck_at: int) -> RankState:
        fault = self._simulation.fault
        at_fault = rank == fault.rank
        stage = self._layout.place(rank)[1]
        upto, more = completed_upto(self._simulation, rank, stuck_at)
        done, begun = self._begun(
            stage,
            upto,
            more=more,
            waiting=waits(self._simulation, rank),
            inverted=inverts(self._simulation, rank),
        )
        return RankState(
            rank=rank,
            host=f"host{rank // PER_HOST}",
            process=self._process(rank),
            attempt="a",
            world_size=self._layout.size,
            phase=Phase.RUN,
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
        self, stage: int, stuck_at: int, *, more: int, waiting: bool, inverted: bool
    ) -> tuple[Counter[str], tuple[Issued, ...]]:
        """Count what was completed and list what was issued: the same for all ranks but one."""
        done = _counts(self._simulation, stage, stuck_at)
        if not waiting:
            return done, ()
        return done, issued(self._simulation, stage, stuck_at, inverted=inverted, more=more)

    def _process(self, rank: int) -> Process:
        pid = 1000 + rank
        fault = self._simulation.fault
        if waits(self._simulation, rank):
            return Process(pid, ProcessState.SLEEPING, "futex_wait_queue")
        if fault.kind is FaultKind.DEAD:
            return Process(pid, ProcessState.GONE, exit_code=-9, gone_for=STALLED)
        if fault.kind is FaultKind.STOPPED:
            return Process(pid, ProcessState.STOPPED, "do_signal_stop")
        return Process(pid, ProcessState.SLEEPING, "hrtimer_nanosleep")

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
                backend=self._backend,
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
    """Return the stack of a rank inside a function of torch.distributed."""
    return (
        CodeLine(_C10D, 2800, function),
        CodeLine("train.py", 20, "train", f"dist.{function}(x)", user=True),
    )
