"""Whom a rank waits for on its own host: who holds the lock, has the pipe, or is the child."""

from collections.abc import Iterable

from msgspec import Struct

from unstuck.diagnose.blocked import BUSY_CPU, is_asleep
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence
from unstuck.model.waiting import Neighbour

_IDLE_CPU = 0.05
_MOST_TOLD = 4
_LOCK_WAITS = ("locks_lock", "flock", "posix_lock", "fcntl_setlk", "lock_file_wait")
_WORKER_FILES = ("multiprocessing/", "torch/utils/data/")
_STOPPED = ("T", "t")


class Reading(Struct, frozen=True):
    """What a rank does, in words, and the cause that it speaks for."""

    cause: Cause
    confidence: Confidence
    phrase: str
    because: str
    alternatives: tuple[Alternative, ...] = ()
    evidence: tuple[Evidence, ...] = ()


def read_neighbours(state: RankState) -> Reading | None:
    """Say in what another process of the host holds a rank up, if one does."""
    if state.process.cpu >= BUSY_CPU or is_asleep(state):
        return None
    return _file_lock(state) or _stopped_child(state) or _locked_child(state) or _full_pipe(state)


def _file_lock(state: RankState) -> Reading | None:
    if not any(word in state.process.waits_in for word in _LOCK_WAITS):
        return None
    wait = state.waiting
    held = f", held by process {_named(wait.by)}" if wait.by else ""
    whom = f"process {_named(wait.by)}" if wait.by else "who holds it (lslocks on its host)"
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY,
        f"waits for the lock of {_file(wait.target)}{held}",
        "the kernel lets it go on when that lock is given back",
        (
            Alternative(
                Cause.BUSY_ELSEWHERE,
                f"look at {whom}: a process that works gives the lock back by itself",
            ),
        ),
        _evidence(state, wait.by, "holds the lock"),
    )


def _stopped_child(state: RankState) -> Reading | None:
    wait = state.waiting
    if wait.by:
        stopped = [one for one in wait.by if one.state in _STOPPED]
    elif any(word in line.file for line in state.stack for word in _WORKER_FILES):
        stopped = [one for one in wait.children if one.state in _STOPPED]
    else:
        stopped = []
    if not stopped:
        return None
    pids = " ".join(str(one.pid) for one in stopped[:_MOST_TOLD])
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY,
        f"waits for its child process {_named(stopped)}, which is stopped",
        "a stopped process (SIGSTOP, a debugger) gives no data and does not end; "
        f"`kill -CONT {pids}` on {state.host} lets it go on",
        (
            Alternative(
                Cause.BUSY_ELSEWHERE,
                "see whether the rank comes once its child goes on: if not, it waits for "
                "something else",
            ),
        ),
        _evidence(state, stopped, "is a child of the rank"),
    )


def _locked_child(state: RankState) -> Reading | None:
    wait = state.waiting
    locked = [one for one in wait.by if _waits_for_lock(one)]
    if not locked or wait.kind not in ("child", "data", "full"):
        return None
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY,
        f"waits for its child process {_named(locked)}, which waits for a lock itself",
        "all threads of the child wait for a lock and use no cpu; a child that was forked while "
        "another thread held a lock never gets it",
        (
            Alternative(
                Cause.BUSY_ELSEWHERE,
                f"take the stack of process {_named(locked)} twice: a changed line means that it "
                "works",
            ),
        ),
        _evidence(state, locked, "is a child of the rank"),
    )


def _full_pipe(state: RankState) -> Reading | None:
    if "pipe_write" not in state.process.waits_in:
        return None
    wait = state.waiting
    busy = any((one.cpu or 0.0) >= _IDLE_CPU for one in wait.by)
    pipe = wait.target or "the pipe that it writes to"
    reader = f" by process {_named(wait.by)}" if wait.by else ""
    both = (Cause.BUSY_ELSEWHERE, Cause.HOST_DEADLOCK)
    likely, other = both if busy else reversed(both)
    return Reading(
        likely,
        Confidence.LIKELY if wait.by else Confidence.POSSIBLE,
        f"waits until {pipe} is read{reader}",
        "the pipe is full, and its reader " + ("works" if busy else "does not take anything"),
        (
            Alternative(
                other,
                "look at the reader of the pipe: one that reads slowly lets the rank go on by "
                "itself, one that waits for something else does not",
            ),
        ),
        _evidence(state, wait.by, "reads the pipe"),
    )


def read_child(state: RankState) -> Reading | None:
    """Name the child that a rank waits for, of which nothing shows that it is stuck."""
    wait = state.waiting
    if not wait.by or wait.kind not in ("child", "data"):
        return None
    what = "the end of" if wait.kind == "child" else "data from"
    return Reading(
        Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        f"waits for {what} its child process {_named(wait.by)}",
        "its main thread waits for a process that it started, outside any collective",
        (
            Alternative(
                Cause.HOST_DEADLOCK,
                f"look at process {_named(wait.by)}: the same place without cpu time means that "
                "it is stuck",
            ),
        ),
        _evidence(state, wait.by, "is a child of the rank"),
    )


def _waits_for_lock(one: Neighbour) -> bool:
    in_lock = bool(one.waits) and all("futex" in where for where in one.waits)
    return in_lock and one.state == "S" and (one.cpu or 0.0) < _IDLE_CPU


def _file(path: str) -> str:
    return f"file {path}" if path else "a file"


def _named(found: Iterable[Neighbour]) -> str:
    several = [f"{one.pid} ({one.name})" if one.name else str(one.pid) for one in found]
    more = [f"{len(several) - _MOST_TOLD} more"] if len(several) > _MOST_TOLD else []
    return ", ".join(several[:_MOST_TOLD] + more)


def _evidence(state: RankState, found: Iterable[Neighbour], role: str) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"rank {state.rank}: /proc", f"process {_described(one)}; it {role}", "root")
        for one in list(found)[:_MOST_TOLD]
    )


def _described(one: Neighbour) -> str:
    text = f"{_named([one])} in state {one.state}"
    if one.cpu is not None:
        text += f", cpu {one.cpu:.0%}"
    return text + (f", waits in {', '.join(one.waits)}" if one.waits else "")
