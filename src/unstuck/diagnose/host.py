"""What a living rank that others wait for is doing instead."""

from msgspec import Struct

from unstuck.diagnose import contention
from unstuck.diagnose.blocked import (
    BUSY_CPU,
    innermost,
    is_asleep,
    is_held_up,
    waits_on_host,
)
from unstuck.diagnose.finding import culprit, process_evidence, stack_evidence
from unstuck.diagnose.neighbours import Reading, read_child, read_neighbours
from unstuck.diagnose.words import seconds_text
from unstuck.model.host import Pressure
from unstuck.model.rank import CodeLine, RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Culprit, Evidence

_LOADER_CALLS = ("_next_data", "_try_get_data", "_get_data", "_poll")
_STORE_FILES = ("distributed_c10d.py", "rendezvous.py")
_STORE_CALLS = frozenset(
    {
        "_store_based_barrier",
        "init_process_group",
        "_new_process_group_helper",
        "_new_group_with_tag",
        "new_group",
        "_create_c10d_store",
    }
)
_PIPE_WAITS = ("pipe_read", "pipe_wait", "anon_pipe_read", "wait_for_partner")
_SOCKET_WAITS = ("unix_stream", "sk_wait", "tcp_recv", "skb_wait", "inet_csk", "wait_woken")
_POLL_WAITS = ("poll", "select", "ep_")

_MAY_END = Alternative(
    Cause.BUSY_ELSEWHERE,
    "take a second stack some seconds later: a changed line means that it works",
)
_MAY_BE_STUCK = Alternative(
    Cause.HOST_DEADLOCK,
    "take a second stack some seconds later: the same line without cpu time means a deadlock",
)


class Doing(Struct, frozen=True):
    """The cause on the rank's own host, and the rank with what it does."""

    cause: Cause
    confidence: Confidence
    because: str
    culprit: Culprit
    evidence: tuple[Evidence, ...]
    alternatives: tuple[Alternative, ...] = ()


def explain_rank(state: RankState, pressure: Pressure | None = None) -> Doing:
    """Say what a living rank does, from its stack and the operating system's view."""
    if not state.process.pid:
        return _known_by_recorder(state)
    shortage = None if state.gil_held else contention.starved(state, pressure or Pressure())
    reading = _lacks(shortage) if shortage else _read(state)
    because = reading.because
    if not state.stack:
        because += "; no stack of this rank could be read"
    doing = reading.phrase
    if state.sections:
        doing += f" in section {state.sections[-1]}"
    if state.section_left is not None and state.section_left <= 0:
        doing += f", {seconds_text(-state.section_left)} over its time"
    return Doing(
        cause=reading.cause,
        confidence=reading.confidence,
        because=because,
        culprit=culprit(state, doing, state.stalled_for),
        evidence=(
            process_evidence(state),
            *(shortage.evidence if shortage else ()),
            *reading.evidence,
            *stack_evidence(state),
        ),
        alternatives=reading.alternatives,
    )


def _lacks(shortage: contention.Shortage) -> Reading:
    return Reading(
        Cause.RESOURCE_CONTENTION,
        Confidence.LIKELY,
        shortage.what,
        shortage.because,
        (
            Alternative(
                Cause.BUSY_ELSEWHERE,
                "see whether it comes once it has what it lacks: if not, its work is too long",
            ),
        ),
    )


def _known_by_recorder(state: RankState) -> Doing:
    """Say how far a rank came of which only the flight recorder's dump is known."""
    last = min(
        (one for group in state.groups for one in group.recent[-1:]),
        key=lambda one: one.age,
        default=None,
    )
    issued = f"issued nothing after {last.op} #{last.number} of group {last.group}" if last else ""
    doing = issued or "has issued no collective"
    text = f"the last operation in its dump is {last.op} #{last.number}" if last else "none in it"
    return Doing(
        cause=Cause.UNKNOWN,
        confidence=Confidence.POSSIBLE,
        because="its dump shows that it never began what the others wait in; what it did instead "
        "is not in a dump",
        culprit=culprit(state, doing, state.stalled_for),
        evidence=(Evidence(f"rank {state.rank}: flight recorder", text, "root"),),
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
        "holds the GIL in a C call, so none of its Python threads can run",
        "its C++ server answers while its Python threads do not run",
        (Alternative(Cause.BUSY_ELSEWHERE, "a long C call ends by itself: see whether it does"),),
    )


def _waits_for_loader(state: RankState) -> Reading | None:
    for line in state.stack:
        if "torch/utils/data/" in line.file and line.function in _LOADER_CALLS:
            return Reading(
                Cause.HOST_DEADLOCK,
                Confidence.LIKELY,
                "waits for its DataLoader workers",
                f"its main thread is in {line.function} of the DataLoader",
                (
                    Alternative(
                        Cause.BUSY_ELSEWHERE,
                        "look at the cpu time and stacks of the DataLoader workers: workers that "
                        "run are slow, not stuck",
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
        "is asleep",
        "its main thread sleeps on a timer outside any collective",
    )


def _waits_for_disk(state: RankState) -> Reading | None:
    if state.process.state != "D":
        return None
    return Reading(
        Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        "waits for the disk or network file system (uninterruptible)",
        "the kernel reports state D",
        (
            Alternative(
                Cause.HARDWARE_FAULT,
                "read the kernel log of its host for I/O errors and check the file system",
            ),
        ),
    )


def store_call(state: RankState) -> str:
    """Name the function of torch in which a rank waits for the store; empty if it does not.

    `new_group` where the stack shows that, as the user knows it by that name.
    """
    found = ""
    for line in state.stack:
        if line.user:
            break
        inside = line.file.endswith(_STORE_FILES)
        if inside and line.function in _STORE_CALLS:
            found = line.function if not line.function.startswith("_new") else "new_group"
        elif not found and not inside:
            break
    return found


def _waits_for_store(state: RankState) -> Reading | None:
    call = store_call(state)
    if not call:
        return None
    return Reading(
        Cause.STORE_LOST,
        Confidence.POSSIBLE,
        f"waits for the store of the job in {call}",
        "groups are set up through the store; it waits for the store itself or for a "
        "rank that has not written its address there",
        (
            Alternative(
                Cause.UNEVEN_WORK,
                "see whether all ranks call new_group, also those that are not members",
            ),
        ),
    )


def _runs(state: RankState) -> Reading | None:
    if state.process.cpu <= BUSY_CPU and state.process.state != "R" and not _works(state):
        return None
    return Reading(
        Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        "is running its own code",
        f"its main thread uses {state.process.cpu:.0%} of a core outside any collective",
        (
            Alternative(
                Cause.UNEVEN_WORK, "compare the amount of work per rank: data, batches, layers"
            ),
        ),
    )


def _works(state: RankState) -> bool:
    """Tell whether it is seen waiting only because something else had the GIL or the core."""
    if not state.stack or "futex" not in state.process.waits_in:
        return False
    return is_held_up(state) and not waits_on_host(state.stack[0])


def _waits_for_lock(state: RankState) -> Reading | None:
    inner = innermost(state)
    in_lock_code = inner is not None and waits_on_host(inner)
    in_own_code = inner is None or inner.user or in_lock_code
    if not ("futex" in state.process.waits_in and in_own_code) and not in_lock_code:
        return None
    if inner is not None and _is_channel(state, inner):
        return None
    return Reading(
        Cause.HOST_DEADLOCK,
        Confidence.LIKELY if inner is not None else Confidence.POSSIBLE,
        "waits for a lock",
        "its main thread waits for another thread or process and uses no cpu",
        (_MAY_END,),
    )


def _is_channel(state: RankState, inner: CodeLine) -> bool:
    if "futex" in state.process.waits_in:
        return False
    return _wait_kind(state) != "" or inner.file.endswith(("socket.py", "subprocess.py"))


def _waits_for_data(state: RankState) -> Reading | None:
    kind = _wait_kind(state)
    inner = innermost(state)
    if not kind and inner is not None and inner.file.endswith(("socket.py", "subprocess.py")):
        kind = "a socket" if inner.file.endswith("socket.py") else "a child process"
    if not kind:
        return None
    return Reading(
        Cause.BUSY_ELSEWHERE,
        Confidence.LIKELY,
        f"waits for data from {kind}",
        "its main thread is in a read outside any collective",
        (_MAY_BE_STUCK,),
    )


def _wait_kind(state: RankState) -> str:
    where = state.process.waits_in
    if any(word in where for word in _PIPE_WAITS):
        return "a pipe"
    if any(word in where for word in _SOCKET_WAITS):
        return "a socket"
    if "do_wait" in where:
        return "a child process"
    return "a pipe or socket" if any(word in where for word in _POLL_WAITS) else ""


def _no_reading(_state: RankState) -> Reading:
    return Reading(
        Cause.UNKNOWN,
        Confidence.POSSIBLE,
        "does not come, and nothing shows what it does",
        "it is alive and not in the operation, but neither its stack nor the kernel says why",
        (
            Alternative(Cause.BUSY_ELSEWHERE, "take its stack with py-spy dump --native"),
            _MAY_BE_STUCK,
        ),
    )
