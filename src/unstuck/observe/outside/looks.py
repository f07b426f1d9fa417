"""Several looks at the ranks of one job on this machine, and what they say together."""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct
from msgspec.structs import replace

from unstuck.model.neighbour import HostWait, KernelWait, kernel_wait
from unstuck.model.rank import Phase, Process, ProcessState, RankState
from unstuck.observe.node import source_text
from unstuck.observe.node.loops import loops_around, route_to
from unstuck.observe.node.pace import places_of
from unstuck.observe.node.process import cgroup, procfs
from unstuck.observe.node.process.waits_for import HostWaitReader
from unstuck.observe.outside import calls, pyspy
from unstuck.observe.outside.asleep_for import asleep_for
from unstuck.observe.outside.calls import DEFAULT, Call
from unstuck.observe.outside.pyspy import Stacks, ThreadStack
from unstuck.observe.outside.rank_processes import RankProcess, in_group

_TOGETHER = 8
"""So many stacks are read at the same time."""
_NOBODY = ThreadStack(0, "", ())


class Look(Struct, frozen=True):
    """One rank at one moment."""

    at: float
    state: ProcessState
    waits_in: str = ""
    cpu_seconds: float = 0.0
    slept: float | None = None
    rss: int = 0
    stacks: Stacks = Stacks()

    def main(self, pid: int) -> ThreadStack:
        """Return the main thread; one without frames where it could not be read."""
        return self.stacks.main(pid) or _NOBODY


class Watched(Struct):
    """What is remembered of one rank between two looks."""

    process: RankProcess
    first: Look
    last: Look
    same_since: float
    """Since when its main thread was seen at no other place."""
    waiting: HostWaitReader
    moved: bool = False
    lines: frozenset[str] = frozenset()

    @property
    def call(self) -> Call | None:
        """The operation it is in."""
        main = self.last.main(self.process.pid)
        shown = replace(main, frames=source_text.with_source(main.frames))
        return calls.call_of(shown, self.last.waits_in)


class Looks:
    """Looks at the ranks of a job again and again; touches none of them."""

    def __init__(self, ranks: Sequence[RankProcess], host: str, *, native: bool = False) -> None:
        self._host = host
        self._native = native
        now = time.monotonic()
        looks = self._look(ranks)
        self.watched = [
            Watched(one, look, look, look.at, HostWaitReader(one.pid, now))
            for one, look in zip(ranks, looks, strict=True)
        ]

    def again(self) -> None:
        """Look once more."""
        for one, look in zip(
            self.watched, self._look([one.process for one in self.watched]), strict=True
        ):
            _compare(one, look)

    def _look(self, ranks: Sequence[RankProcess]) -> list[Look]:
        # The sleep of all of them before anything else: a stack with C++ frames wakes a rank.
        before = [_state_of(one.pid) for one in ranks]
        with ThreadPoolExecutor(_TOGETHER) as pool:
            stacks = list(pool.map(self._take, ranks))
        return [replace(look, stacks=found) for look, found in zip(before, stacks, strict=True)]

    def _take(self, one: RankProcess) -> Stacks:
        return pyspy.take(one.pid, native=self._native)

    @property
    def problems(self) -> dict[int, Stacks]:
        """Return the ranks whose stacks could not be read, with the reason."""
        return {one.process.rank: s for one in self.watched if (s := one.last.stacks).problem}

    def calls(self) -> dict[int, Call | None]:
        """Return the operation that each rank is in."""
        return {one.process.rank: one.call for one in self.watched}

    def states(self) -> tuple[RankState, ...]:
        """Return the ranks as diagnosis reads them."""
        found = self.calls()
        joining = any(calls.in_init(one.last.main(one.process.pid)) for one in self.watched)
        told = unified(found)
        ranks = tuple(range(max((one.process.world_size for one in self.watched), default=0)))
        return tuple(
            self._rank(one, told[one.process.rank], ranks, joining=joining) for one in self.watched
        )

    def _rank(
        self,
        one: Watched,
        call: Call | None,
        ranks: tuple[int, ...],
        *,
        joining: bool,
    ) -> RankState:
        process, last = one.process, one.last
        main = last.main(process.pid)
        stack = source_text.with_source(main.frames)
        stood = _stood(one)
        phase = _phase(process.pid, main, joining=joining)
        joined = phase is Phase.RUN
        user = [(f.file, f.line, f.function, f.user) for f in stack]
        return RankState(
            rank=process.rank,
            host=self._host,
            process=_process(one),
            age=round(procfs.age(process.pid) or 0.0, 3),
            world_size=process.world_size,
            local_rank=process.local_rank,
            unobserved=last.stacks.problem,
            phase=phase,
            stalled_for=round(stood, 3),
            in_flight=call is not None and joined,
            places=places_of("", user),
            lines=len(one.lines),
            groups=calls.progress(call, ranks, stood) if joined else (),
            p2p=calls.messages(call, stood) if joined else (),
            stack=stack,
            loops=loops_around((f.file, f.line) for f in main.frames),
            route=route_to(main.frames),
            threads=_threads_text(last.stacks, process.pid),
            stack_age=0.0,
            waiting=one.waiting.look(time.monotonic()) if _lives(last) else HostWait(),
            gil_held=_gil_held(one),
        )


def unified(found: Mapping[int, Call | None]) -> dict[int, Call | None]:
    """Let ranks that wait in collectives be in one and the same, unless they surely are not.

    Where somebody is in none, the others may be in different ones because of that. And calls in
    groups of the script may differ: these have different members.
    """
    inside = [call for call in found.values() if call and not call.message]
    differ = len({call.op for call in inside}) > 1
    sure = len(inside) == len(found) and all(c.exact and c.group == DEFAULT for c in inside)
    if not differ or sure:
        return dict(found)
    [(usual, _)] = Counter(call.op for call in inside).most_common(1)
    return {
        rank: replace(call, op=usual) if call and not call.message else call
        for rank, call in found.items()
    }


def _state_of(pid: int) -> Look:
    stat = procfs.stat(pid)
    if stat is None:
        return Look(time.monotonic(), ProcessState.GONE)
    letter = "F" if cgroup.frozen(pid) else stat.state
    return Look(
        at=time.monotonic(),
        state=ProcessState(letter),
        waits_in=procfs.waits_in(pid),
        cpu_seconds=procfs.thread_cpu(pid),
        slept=asleep_for(pid),
        rss=stat.rss,
    )


def _compare(one: Watched, look: Look) -> None:
    pid, before = one.process.pid, one.last
    main = look.main(pid)
    frames, earlier = main.frames, before.main(pid).frames
    one.last = look
    if _ran(before, look) and (frames != earlier or _waits_for_lock(before)):
        # In an operation of gloo nothing wakes the main thread before it completes.
        one.moved = True
        one.same_since = look.at
    own = next((frame for frame in source_text.with_source(frames) if frame.user), None)
    if own is not None:
        one.lines |= {f"{own.file}:{own.line}"}


def _ran(before: Look, now: Look) -> bool:
    """Tell whether the main thread ran between two looks; if not told, it may have."""
    return now.slept is None or now.slept < now.at - before.at


def _waits_for_lock(look: Look) -> bool:
    return look.slept is not None and kernel_wait(look.waits_in) is KernelWait.LOCK


def _stood(one: Watched) -> float:
    """Return for how long it has been where it is, as far as that can be known."""
    seen = one.last.at - one.same_since
    return max(seen, one.last.slept or 0.0)


def _lives(look: Look) -> bool:
    return look.state not in (ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.DEAD)


def _process(one: Watched) -> Process:
    last, first, pid = one.last, one.first, one.process.pid
    if not _lives(last):
        return Process(pid, ProcessState.GONE, gone_for=last.at - first.at)
    seconds = last.at - first.at
    used = max(0.0, last.cpu_seconds - first.cpu_seconds)
    return Process(
        pid=pid,
        state=last.state,
        waits_in=last.waits_in,
        cpu=round(min(1.0, used / seconds), 3) if seconds > 0 else 0.0,
        cores=procfs.cores(pid),
        rss=last.rss,
    )


def _phase(pid: int, main: ThreadStack, *, joining: bool) -> Phase:
    """Before it joined, or after: while some are in init, one without gloo or NCCL has not."""
    if calls.in_init(main):
        return Phase.INIT
    return Phase.START if joining and not in_group(pid) else Phase.RUN


def _gil_held(one: Watched) -> bool:
    """Tell whether it holds the GIL and does not run, as in a C call that never releases it."""
    pid = one.process.pid
    main = one.last.main(pid)
    held = main.holds_gil and one.first.main(pid).holds_gil
    return held and not one.moved and one.last.state is ProcessState.SLEEPING


def _threads_text(stacks: Stacks, pid: int) -> tuple[str, ...]:
    """Write the stacks in the form of faulthandler, that of the main thread first."""
    ordered = sorted(stacks.threads, key=lambda one: one.id != pid)
    return tuple(
        f"Thread 0x{one.id:016x} (most recent call first):\n"
        + "".join(f'  File "{f.file}", line {f.line} in {f.function}\n' for f in one.frames)
        for one in ordered
    )


def host_name() -> str:
    """Return the name of this machine, as a verdict shows it."""
    return os.uname().nodename
