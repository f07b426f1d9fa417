"""Does a rank's main thread wait inside a collective, a send or a receive?

An incomplete operation alone does not prove it: work issued with `async_op=True` may be
outstanding while the thread sleeps or computes. The stack and the kernel decide.
"""

import re
from functools import lru_cache

from msgspec import Struct

from unstuck.model.rank import CodeLine, RankState

BUSY_CPU = 0.5
IDLE_CPU = 0.05
"""A thread that waits for a lock uses less; one that is only held up, by the GIL or for want of a
free core, uses more, even if the moment it was looked at shows it waiting."""
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
    )


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
    """Tell whether the main thread sleeps on a timer, as `time.sleep` does."""
    waits_in = state.process.waits_in
    if "nanosleep" in waits_in or "nsleep" in waits_in:
        return True
    inner = innermost(state)
    if inner is None or "sleep(" not in inner.text:
        return False
    return state.process.cpu < BUSY_CPU and "futex" not in waits_in


def is_blocked(state: RankState) -> bool:
    """Tell whether the main thread waits in an operation, given that one is incomplete."""
    if state.gil_held or state.phase in ("exception", "exit") or is_asleep(state):
        return False
    running = state.process.cpu >= BUSY_CPU
    if not state.stack:
        return not running
    seen = view(state.stack)
    if seen.in_call:
        return True
    if seen.on_host:
        return False
    if running:
        return _spins_for_device(state, seen)
    return (seen.calls and not seen.in_torch) or _waits_in_thread(state)


def waits_in_other_thread(state: RankState) -> bool:
    """Tell whether the main thread waits on its host while another one is in a collective.

    Example: a thread that runs the collectives of a script, or that of an asynchronous checkpoint
    which is waited for. While the main thread works, such a thread holds nobody up.
    """
    if state.gil_held or state.phase != "run" or not state.stack or not view(state.stack).on_host:
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
    where = state.process.waits_in
    return "futex" in where or (where in ("", "0") and state.process.state != "R")
