"""What a living rank that others wait for is doing instead."""

import re

from msgspec import Struct
from msgspec.structs import replace

from unstuck.diagnose.finding import culprit, process_evidence, stack_evidence
from unstuck.diagnose.job.main_thread import (
    innermost,
    is_asleep,
    is_held_up,
    store_call,
    waits_for,
    waits_on_host,
)
from unstuck.diagnose.slow import contention
from unstuck.diagnose.stuck.neighbours import Reading, read_child, read_neighbours
from unstuck.diagnose.thresholds import BUSY_CPU, FROZEN_FOR
from unstuck.model import doing
from unstuck.model.doing import Input, Source
from unstuck.model.host import Pressure
from unstuck.model.neighbour import KernelWait
from unstuck.model.rank import CodeLine, RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Culprit, Evidence, Role

_LOADER_CALLS = ("_next_data", "_try_get_data", "_get_data", "_poll")
_SERVES = (
    ("socket.py", ("accept",)),
    ("socketserver.py", ("serve_forever", "handle_request", "get_request")),
    ("asyncio/base_events.py", ("run_forever",)),
)
_JOINS = (
    ("threading.py", ("join",)),
    ("concurrent/futures/_base.py", ("result", "wait", "as_completed")),
    ("concurrent/futures/thread.py", ("shutdown",)),
)
_ACQUIRES = re.compile(r"\.acquire\(\)|^\s*with\b.*lock", re.IGNORECASE)
"""Without a timeout: one that has a limit ends by itself."""
_SOURCES = {
    KernelWait.PIPE_READ: Source.PIPE,
    KernelWait.SOCKET: Source.SOCKET,
    KernelWait.CHILD: Source.CHILD,
    KernelWait.ANY: Source.ANY,
}

_MAY_END = Alternative(
    Cause.BUSY_ELSEWHERE,
    "take another stack a few seconds later: if the line changes, it is making progress",
)
_MAY_BE_STUCK = Alternative(
    Cause.HOST_DEADLOCK,
    "take another stack a few seconds later: the same line and no CPU time mean a deadlock",
)


class Doing(Struct, frozen=True):
    """The cause on the rank's own host, and the rank with what it does."""

    cause: Cause
    confidence: Confidence
    because: str
    culprit: Culprit
    evidence: tuple[Evidence, ...]
    alternatives: tuple[Alternative, ...] = ()
    proof: str = ""
    """Why the rank cannot go on by itself; empty where it may."""


def explain_rank(state: RankState, pressure: Pressure | None = None) -> Doing:
    """Say what a living rank does, from its stack and the operating system's view."""
    if not state.process.pid:
        return _known_by_recorder(state)
    shortage = None if state.gil_held else contention.starved(state, pressure or Pressure())
    reading = _lacks(shortage) if shortage else _read(state)
    because = reading.because
    if not state.stack:
        because += "; no stack of this rank could be read"
    activity = replace(
        reading.activity,
        section=state.sections[-1] if state.sections else "",
        overdue=max(0.0, -(state.section_left or 0.0)),
        handling=state.handling,
    )
    return Doing(
        cause=reading.cause,
        confidence=reading.confidence,
        because=because,
        culprit=culprit(state, activity, state.stalled_for),
        evidence=(
            process_evidence(state),
            *(shortage.evidence if shortage else ()),
            *reading.evidence,
            *stack_evidence(state),
        ),
        alternatives=reading.alternatives,
        proof=reading.proof,
    )


def _lacks(shortage: contention.Shortage) -> Reading:
    return Reading(
        Cause.RESOURCE_CONTENTION,
        Confidence.LIKELY,
        shortage.lacks,
        shortage.because,
        (
            Alternative(
                Cause.BUSY_ELSEWHERE,
                "give it what it lacks: if it still does not arrive, its work takes too long",
            ),
        ),
    )


def _known_by_recorder(state: RankState) -> Doing:
    """Say how far a rank got of which only the flight recorder's dump is known."""
    last = min(
        (one for group in state.groups for one in group.recent[-1:]),
        key=lambda one: one.age,
        default=None,
    )
    issued = doing.IssuedLast(last.op, last.number, last.group) if last else doing.IssuedLast()
    text = (
        f"the last operation in its dump is {last.op} #{last.number}"
        if last
        else "its dump has no completed operation"
    )
    return Doing(
        cause=Cause.UNKNOWN,
        confidence=Confidence.POSSIBLE,
        because="its dump shows that it never started the operation in which the others wait; "
        "a dump does not show what it did instead",
        culprit=culprit(state, issued, state.stalled_for),
        evidence=(Evidence(f"rank {state.rank}: flight recorder", text, Role.ROOT),),
        alternatives=(
            Alternative(Cause.BUSY_ELSEWHERE, "read its log from then on, or take its stack"),
            Alternative(Cause.UNEVEN_WORK, "compare the number of batches per rank"),
            Alternative(Cause.HOST_DEADLOCK, "take its stack with py-spy dump while it hangs"),
        ),
    )


def _read(state: RankState) -> Reading:
    return (
        _holds_gil(state)
        or read_neighbours(state)
        or _waits_for_loader(state)
        or _sleeps(state)
        or _waits_for_disk(state)
        or _waits_for_store(state)
        or _runs(state)
        or read_child(state)
        or _waits_for_input(state)
        or _waits_for_thread(state)
        or _waits_for_lock(state)
        or _waits_for_data(state)
        or _no_reading(state)
    )


def _holds_gil(state: RankState) -> Reading | None:
    if not state.gil_held:
        return None
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY,
        doing.HoldsGil(),
        "its C++ server answers while its Python threads do not run",
        (Alternative(Cause.BUSY_ELSEWHERE, "wait: a C call that is only long returns by itself"),),
        proof=_gil_proof(state),
    )


def _gil_proof(state: RankState) -> str:
    if state.life is None or state.life.quiet_for < FROZEN_FOR:
        return ""
    return "the code that holds the GIL uses no CPU, and no other thread can run to wake it"


def _waits_for_loader(state: RankState) -> Reading | None:
    for line in state.stack:
        if "torch/utils/data/" in line.file and line.function in _LOADER_CALLS:
            return Reading(
                Cause.HOST_DEADLOCK,
                Confidence.LIKELY,
                doing.WaitsForWorkers(),
                f"its main thread is in {line.function} of the DataLoader",
                (
                    Alternative(
                        Cause.BUSY_ELSEWHERE,
                        "look at the CPU time and stacks of the DataLoader workers: workers that "
                        "use CPU are slow, not stuck",
                    ),
                ),
            )
    return None


def _sleeps(state: RankState) -> Reading | None:
    if not is_asleep(state):
        return None
    return Reading(
        Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        doing.Asleep(),
        "its main thread sleeps on a timer outside any collective",
    )


def _waits_for_disk(state: RankState) -> Reading | None:
    if state.process.state != "D":
        return None
    return Reading(
        Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        doing.WaitsForDisk(),
        "the kernel reports state D",
        (
            Alternative(
                Cause.HARDWARE_FAULT,
                "look for I/O errors in its host's kernel log, and check the file system",
            ),
        ),
    )


def _waits_for_store(state: RankState) -> Reading | None:
    call = store_call(state)
    if not call:
        return None
    return Reading(
        Cause.STORE_LOST,
        Confidence.POSSIBLE,
        doing.WaitsForStore(call),
        "groups are set up through the store; it waits for the store itself, or for a rank that "
        "has not written its address there",
        (
            Alternative(
                Cause.UNEVEN_WORK,
                "check that all ranks call new_group, including those that are not members",
            ),
        ),
    )


def _runs(state: RankState) -> Reading | None:
    if state.process.cpu <= BUSY_CPU and state.process.state != "R" and not _works(state):
        return None
    return Reading(
        Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        doing.Computing(),
        f"its main thread uses {state.process.cpu:.0%} of a core outside any collective",
        (
            Alternative(
                Cause.UNEVEN_WORK, "compare the amount of work per rank: data, batches, layers"
            ),
        ),
    )


def _works(state: RankState) -> bool:
    """Tell whether it is seen waiting only because something else had the GIL or the core."""
    if not state.stack or waits_for(state) is not KernelWait.LOCK:
        return False
    return is_held_up(state) and not waits_on_host(state.stack[0])


def _waits_for_input(state: RankState) -> Reading | None:
    """Find a rank where work comes in: by design it may wait there for long."""
    if any(_is_in(line, "queue.py", ("get",)) for line in state.stack):
        what, because = Input.QUEUE, "its main thread is in the get of a queue that is empty"
    elif any(_is_in(line, file, calls) for line in state.stack for file, calls in _SERVES):
        what, because = Input.REQUEST, "its main thread listens for requests"
    else:
        return None
    return Reading(
        Cause.HOST_DEADLOCK if what is Input.QUEUE else Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        doing.WaitsForInput(how=what),
        because,
        (
            Alternative(
                Cause.HOST_DEADLOCK if what is Input.REQUEST else Cause.BUSY_ELSEWHERE,
                "look at who should send it: a producer that died or waits itself sends nothing",
            ),
        ),
        proof=_queue_proof(state),
    )


def _waits_for_thread(state: RankState) -> Reading | None:
    if not any(_is_in(line, file, calls) for line in state.stack for file, calls in _JOINS):
        return None
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY,
        doing.WaitsForThread(),
        "its main thread waits for another thread and uses no CPU",
        (_MAY_END,),
    )


def _is_in(line: CodeLine, file: str, calls: tuple[str, ...]) -> bool:
    return line.function in calls and line.file.replace("\\", "/").endswith(f"/{file}")


def _nobody_left(state: RankState) -> bool:
    """Tell whether nothing else of the process is alive: no child, no sign of life for long."""
    if state.elsewhere is None or state.waiting.children or state.life is None:
        return False
    return bool(state.stack) and state.life.quiet_for >= FROZEN_FOR


def _lock_proof(state: RankState) -> str:
    """Say that no thread is left that could release the lock; empty where one may.

    A lock of the module multiprocessing may be released by another process.
    """
    if not _nobody_left(state) or not _acquires(state.stack[0]):
        return ""
    others = state.elsewhere or ()
    if not all(_acquires(line) for line in others):
        return ""
    if others:
        return "all threads of its process wait for locks, so none of them can release one"
    return "no other thread of its process is left that could release it"


def _queue_proof(state: RankState) -> str:
    """Say that no thread is left that could fill the queue; empty where one may.

    A get with a limit ends by itself: it waits in another line.
    """
    gets = [line for line in state.stack if _is_in(line, "queue.py", ("get",))]
    if not any(".wait()" in line.text for line in gets):
        return ""
    if not _nobody_left(state) or state.elsewhere:
        return ""
    return "no other thread of its process is left that could put anything into the queue"


def _acquires(line: CodeLine) -> bool:
    return bool(_ACQUIRES.search(line.text))


def _waits_for_lock(state: RankState) -> Reading | None:
    inner = innermost(state)
    in_lock_code = inner is not None and waits_on_host(inner)
    in_own_code = inner is None or inner.user or in_lock_code
    if not (waits_for(state) is KernelWait.LOCK and in_own_code) and not in_lock_code:
        return None
    if inner is not None and _is_channel(state, inner):
        return None
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY if inner is not None else Confidence.POSSIBLE,
        doing.WaitsForLock(),
        "its main thread waits for another thread or process and uses no CPU",
        (_MAY_END,),
        proof=_lock_proof(state),
    )


def _is_channel(state: RankState, inner: CodeLine) -> bool:
    if waits_for(state) is KernelWait.LOCK:
        return False
    return _source(state) is not None or inner.file.endswith(("socket.py", "subprocess.py"))


def _waits_for_data(state: RankState) -> Reading | None:
    source = _source(state)
    inner = innermost(state)
    if source is None and inner is not None:
        if inner.file.endswith("socket.py"):
            source = Source.SOCKET
        elif inner.file.endswith("subprocess.py"):
            source = Source.CHILD
    if source is None:
        return None
    return Reading(
        Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        doing.WaitsForData(source),
        "its main thread is in a read outside any collective",
        (_MAY_BE_STUCK,),
    )


def _source(state: RankState) -> Source | None:
    """Tell from the kernel function in which it sleeps where awaited data would come from."""
    return _SOURCES.get(waits_for(state))


def _no_reading(_state: RankState) -> Reading:
    return Reading(
        Cause.UNKNOWN,
        Confidence.POSSIBLE,
        doing.Unclear(),
        "it is alive and not in the operation, but neither its stack nor the kernel shows why",
        (
            Alternative(Cause.BUSY_ELSEWHERE, "take its stack with py-spy dump --native"),
            _MAY_BE_STUCK,
        ),
    )
