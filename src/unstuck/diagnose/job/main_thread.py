"""Does a rank's main thread wait inside a collective, a send or a receive?

An incomplete operation alone does not prove it: work issued with `async_op=True` may be
outstanding while the thread sleeps or computes. The stack and the kernel decide.
"""

import re
from functools import lru_cache

from msgspec import Struct

from unstuck.diagnose.thresholds import BUSY_CPU, IDLE_CPU
from unstuck.model.neighbour import KernelWait, kernel_wait
from unstuck.model.rank import CodeLine, Phase, ProcessState, RankState

POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv", "wait"})
_COLLECTIVES = (
    "all_reduce|all_gather|all_to_all|reduce_scatter|broadcast|reduce|gather|scatter|barrier|"
    "monitored_barrier"
)
_COLLECTIVE = re.compile(rf"^_?({_COLLECTIVES})(_\w+)?$")
_CALL = re.compile(rf"\b((?:{_COLLECTIVES})(?:_\w+)?|i?send|i?recv|batch_isend_irecv)\(")
_THREAD_IN_CALL = re.compile(
    r'^Thread 0x[0-9a-f]+ .*\n  File ".*distributed_c10d\.py", line \d+ in (\w+)$', re.MULTILINE
)
_WAITS_FOR_DEVICE = re.compile(r"\.(wait|item|cpu|tolist|synchronize|backward)\(")
_WAITS_FOR_HOST = re.compile(
    r"\.(acquire|join|get|result)\(|^\s*(async )?with\b.*lock", re.IGNORECASE
)
_OUTSIDE = frozenset(
    {
        KernelWait.PIPE_READ,
        KernelWait.PIPE_WRITE,
        KernelWait.SOCKET,
        KernelWait.CHILD,
        KernelWait.FILE_LOCK,
    }
)
"""Backends let a thread of their own wait for the network: `.recv(` there is not torch's."""
BARRIER = "monitored_barrier"
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
_HOST_FILES = re.compile(
    r"torch/utils/data/|(^|/)(threading|queue|selectors|subprocess|socket)\.py$|"
    r"multiprocessing/|concurrent/futures/"
)


class StackView(Struct, frozen=True, gc=False):
    """What a stack alone says. Most ranks of a job have one of a few stacks: read each once."""

    call: str
    """The function of torch.distributed that the thread is in, as far as it shows."""
    in_call: bool
    """The innermost frame is torch.distributed itself."""
    on_host: bool
    in_torch: bool
    for_device: bool
    calls: bool
    """The innermost line calls a collective or waits for a device."""
    meets: str
    """The function in which ranks meet without a collective (`new_group`); empty if in none."""


@lru_cache(8192)
def view(stack: tuple[CodeLine, ...]) -> StackView:
    """Read a stack that is not empty."""
    inner = stack[0]
    call = _call_in(stack)
    for_device = bool(_WAITS_FOR_DEVICE.search(inner.text))
    return StackView(
        call=call,
        in_call=bool(call) and inner.file.endswith("distributed_c10d.py"),
        on_host=waits_on_host(inner),
        in_torch=in_torch(inner),
        for_device=for_device,
        calls=for_device or bool(_CALL.search(inner.text)),
        meets=BARRIER if _is_barrier(inner) else _store_call(stack),
    )


def _is_barrier(inner: CodeLine) -> bool:
    return inner.function == BARRIER and inner.file.endswith("distributed_c10d.py")


def _store_call(stack: tuple[CodeLine, ...]) -> str:
    """Name the function in which a rank waits for the store, as the user knows it."""
    found = ""
    for line in stack:
        if line.user:
            break
        inside = line.file.endswith(_STORE_FILES)
        if inside and line.function in _STORE_CALLS:
            found = line.function if not line.function.startswith("_new") else "new_group"
        elif not found and not inside:
            break
    return found


def store_call(state: RankState) -> str:
    """Name the function of torch in which a rank waits for the store; empty if it does not."""
    meets = view(state.stack).meets if state.stack else ""
    return "" if meets == BARRIER else meets


def in_barrier(state: RankState) -> bool:
    """Tell whether a rank waits in `monitored_barrier`, which no recorder shows."""
    inside = bool(state.stack) and view(state.stack).meets == BARRIER
    return inside and not state.in_flight and not state.gil_held


def call_in_progress(state: RankState) -> str:
    """Name the function of torch.distributed that the main thread is in, as far as it shows.

    Example: `all_reduce`, `recv`, or an empty string when the stack says nothing.
    """
    return view(state.stack).call if state.stack else ""


def _call_in(stack: tuple[CodeLine, ...]) -> str:
    for line in stack:
        if line.file.endswith("distributed_c10d.py"):
            if line.function in POINT_TO_POINT or _COLLECTIVE.match(line.function):
                return line.function
        elif line.user:
            found = _CALL.search(line.text)
            return found.group(1) if found else ""
    return ""


def is_asleep(state: RankState) -> bool:
    """Tell whether the main thread sleeps on a timer, as `time.sleep` does.

    The kernel knows; the text of the line counts only where the kernel does not say.
    """
    where = waits_for(state)
    if where is not KernelWait.HIDDEN:
        return where is KernelWait.TIMER
    inner = innermost(state)
    return inner is not None and "sleep(" in inner.text and state.process.cpu < BUSY_CPU


def waits_for(state: RankState) -> KernelWait:
    """Return what the main thread waits for in the kernel."""
    return kernel_wait(state.process.waits_in)


def is_blocked(state: RankState) -> bool:
    """Tell whether the main thread waits in an operation, given that one is incomplete."""
    if state.gil_held or state.phase in (Phase.EXCEPTION, Phase.EXIT) or is_asleep(state):
        return False
    running = state.process.cpu >= BUSY_CPU
    if not state.stack:
        return not running
    seen = view(state.stack)
    if seen.in_call:
        return True
    if seen.on_host or waits_for(state) in _OUTSIDE:
        return False
    if running:
        return _spins_for_device(state, seen)
    return (seen.calls and not seen.in_torch) or _waits_in_thread(state)


def waits_in_other_thread(state: RankState) -> bool:
    """Tell whether the main thread waits on its host while another one is in a collective.

    Example: a thread that runs the collectives of a script, or that of an asynchronous checkpoint
    which is waited for. While the main thread works, such a thread holds nobody up.
    """
    if state.gil_held or state.phase != Phase.RUN:
        return False
    if not state.stack or not view(state.stack).on_host:
        return False
    calls = (call for text in state.threads for call in _THREAD_IN_CALL.findall(text))
    return any(call in POINT_TO_POINT or _COLLECTIVE.match(call) for call in calls)


def is_held_up(state: RankState) -> bool:
    """Tell whether it stands at a line of its own and runs, although slowly."""
    return state.stack[0].user and state.process.cpu >= IDLE_CPU


def waits_on_host(line: CodeLine) -> bool:
    """Tell whether a frame waits for a lock, a queue, a worker or a pipe of its own host."""
    if _is_host_file(line.file):
        return True
    if in_torch(line) or _CALL.search(line.text):
        return False
    return bool(_WAITS_FOR_HOST.search(line.text))


@lru_cache(4096)
def _is_host_file(file: str) -> bool:
    return bool(_HOST_FILES.search(file.replace("\\", "/")))


def innermost(state: RankState) -> CodeLine | None:
    """Return the innermost Python frame of the main thread, if a stack is known."""
    return state.stack[0] if state.stack else None


def in_torch(line: CodeLine) -> bool:
    """Tell whether a frame belongs to PyTorch itself."""
    file = line.file.replace("\\", "/")
    return not line.user and ("/torch/" in file or file.startswith("torch/"))


def _spins_for_device(state: RankState, seen: StackView) -> bool:
    # Waiting for a GPU burns a core, so there high cpu is no sign of work.
    on_gpu = any("nccl" in g.backend for g in state.groups if g.enqueued > g.completed)
    return on_gpu and (seen.in_torch or seen.for_device)


def _waits_in_thread(state: RankState) -> bool:
    """Tell whether the main thread waits for another thread, as it does in `Work.wait`."""
    if is_held_up(state):
        return False
    where = waits_for(state)
    return where is KernelWait.LOCK or (
        where is KernelWait.HIDDEN and state.process.state is not ProcessState.RUNNING
    )
