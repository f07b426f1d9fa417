"""Whom a rank waits for on its own host: who holds the lock, has the pipe, or is the child."""

from collections.abc import Sequence

from msgspec import Struct

from unstuck.diagnose.job.main_thread import is_asleep, waits_for
from unstuck.diagnose.thresholds import BUSY_CPU, IDLE_CPU
from unstuck.diagnose.wording import MOST_PROCESSES, processes_text
from unstuck.model.doing import (
    Activity,
    Child,
    WaitsForFileLock,
    WaitsForProcess,
    WaitsForReader,
)
from unstuck.model.neighbour import KernelWait, Neighbour, kernel_wait
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence, Role

_WORKER_FILES = ("multiprocessing/", "torch/utils/data/")
_STOPPED = ("T", "t")


class Reading(Struct, frozen=True):
    """What a rank does, and the cause that this points to."""

    cause: Cause
    confidence: Confidence
    activity: Activity
    because: str
    alternatives: tuple[Alternative, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    proof: str = ""
    """Why the rank cannot go on by itself; empty where it may."""


def read_neighbours(state: RankState) -> Reading | None:
    """Find out whether a rank waits for another process of its host, and for what."""
    if state.process.cpu >= BUSY_CPU or is_asleep(state):
        return None
    return _file_lock(state) or _stopped_child(state) or _locked_child(state) or _full_pipe(state)


def _file_lock(state: RankState) -> Reading | None:
    if waits_for(state) is not KernelWait.FILE_LOCK:
        return None
    wait = state.waiting
    holder = f"process {processes_text(wait.by)}" if wait.by else "the holder (lslocks on its host)"
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY,
        WaitsForFileLock(wait.target, wait.by),
        "the kernel blocks it until that lock is released",
        (
            Alternative(
                Cause.BUSY_ELSEWHERE,
                f"look at {holder}: a process that makes progress releases the lock by itself",
            ),
        ),
        _evidence(state, wait.by, "holds the lock"),
        _proof(wait.by, "holds that lock"),
    )


def _stopped_child(state: RankState) -> Reading | None:
    wait = state.waiting
    if wait.by:
        stopped = tuple(one for one in wait.by if one.state in _STOPPED)
    elif any(word in line.file for line in state.stack for word in _WORKER_FILES):
        stopped = tuple(one for one in wait.children if one.state in _STOPPED)
    else:
        stopped = ()
    if not stopped:
        return None
    pids = " ".join(str(one.pid) for one in stopped[:MOST_PROCESSES])
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY,
        WaitsForProcess(stopped, Child.STOPPED),
        "a stopped process (SIGSTOP, a debugger) neither sends data nor exits; "
        f"`kill -CONT {pids}` on {state.host} resumes it",
        (
            Alternative(
                Cause.BUSY_ELSEWHERE,
                "resume the child: if the rank still does not arrive, it waits for something else",
            ),
        ),
        _evidence(state, stopped, "is a child of the rank"),
        _proof(stopped, "should send data or exit"),
    )


def _locked_child(state: RankState) -> Reading | None:
    wait = state.waiting
    locked = tuple(one for one in wait.by if _waits_for_lock(one))
    if not locked or wait.kind not in ("child", "data", "full"):
        return None
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY,
        WaitsForProcess(locked, Child.LOCKED),
        "all threads of the child wait for a lock and use no CPU; a child that was forked while "
        "another thread held a lock can never acquire it",
        (
            Alternative(
                Cause.BUSY_ELSEWHERE,
                f"take the stack of process {processes_text(locked)} twice: if the line changes, "
                "it is making progress",
            ),
        ),
        _evidence(state, locked, "is a child of the rank"),
    )


def _full_pipe(state: RankState) -> Reading | None:
    if waits_for(state) is not KernelWait.PIPE_WRITE:
        return None
    wait = state.waiting
    busy = any((one.cpu or 0.0) >= IDLE_CPU for one in wait.by)
    both = (Cause.BUSY_ELSEWHERE, Cause.HOST_DEADLOCK)
    likely, other = both if busy else reversed(both)
    return Reading(
        likely,
        Confidence.LIKELY if wait.by else Confidence.POSSIBLE,
        WaitsForReader(wait.target, wait.by),
        "the pipe is full, and its reader " + ("is running" if busy else "reads nothing"),
        (
            Alternative(
                other,
                "look at the reader of the pipe: a slow one unblocks the rank by itself, one "
                "that waits for something else does not",
            ),
        ),
        _evidence(state, wait.by, "reads the pipe"),
        _proof(wait.by, "should read the pipe"),
    )


def read_child(state: RankState) -> Reading | None:
    """Name the child that a rank waits for where nothing shows that the child is stuck."""
    wait = state.waiting
    if not wait.by or wait.kind not in ("child", "data"):
        return None
    return Reading(
        Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        WaitsForProcess(wait.by, Child.EXIT if wait.kind == "child" else Child.DATA),
        "its main thread waits for a process that it started, outside any collective",
        (
            Alternative(
                Cause.HOST_DEADLOCK,
                f"look at process {processes_text(wait.by)}: if it stays at the same line and "
                "uses no CPU, it is stuck",
            ),
        ),
        _evidence(state, wait.by, "is a child of the rank"),
    )


def _waits_for_lock(one: Neighbour) -> bool:
    in_lock = bool(one.waits) and all(kernel_wait(where) is KernelWait.LOCK for where in one.waits)
    return in_lock and one.state == "S" and (one.cpu or 0.0) < IDLE_CPU


def _proof(found: Sequence[Neighbour], part: str) -> str:
    """Say that all who could end the wait are stopped; empty where one of them is not."""
    if not found or any(one.state not in _STOPPED for one in found):
        return ""
    return f"process {processes_text(found)}, which {part}, is stopped"


def _evidence(state: RankState, found: Sequence[Neighbour], part: str) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"rank {state.rank}: /proc", f"process {_described(one)}; it {part}", Role.ROOT)
        for one in found[:MOST_PROCESSES]
    )


def _described(one: Neighbour) -> str:
    text = f"{processes_text([one])} in state {one.state}"
    if one.cpu is not None:
        text += f", CPU {one.cpu:.0%}"
    return text + (f", waits in {', '.join(one.waits)}" if one.waits else "")
