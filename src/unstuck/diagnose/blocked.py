"""Does a rank's main thread wait inside a collective, a send or a receive?

An incomplete operation alone does not prove it: work issued with `async_op=True` may be
outstanding while the thread sleeps or computes. The stack and the kernel decide.
"""

import re
from functools import lru_cache

from unstuck.model.rank import CodeLine, RankState

BUSY_CPU = 0.5
POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv", "wait"})
_COLLECTIVES = (
    "all_reduce|all_gather|all_to_all|reduce_scatter|broadcast|reduce|gather|scatter|barrier|"
    "monitored_barrier"
)
_COLLECTIVE = re.compile(rf"^_?({_COLLECTIVES})(_\w+)?$")
_CALL = re.compile(rf"\b((?:{_COLLECTIVES})(?:_\w+)?|i?send|i?recv|batch_isend_irecv)\(")
_WAITS_FOR_DEVICE = re.compile(r"\.(wait|item|cpu|tolist|synchronize|backward)\(")
_WAITS_FOR_HOST = re.compile(
    r"\.(acquire|join|get|result)\(|^\s*(async )?with\b.*lock", re.IGNORECASE
)
_HOST_FILES = re.compile(
    r"torch/utils/data/|(^|/)(threading|queue|selectors|subprocess|socket)\.py$|"
    r"multiprocessing/|concurrent/futures/"
)
_NAPS = ("nanosleep", "nsleep")


def call_in_progress(state: RankState) -> str:
    """Name the function of torch.distributed that the main thread is in, as far as it shows.

    Example: `all_reduce`, `recv`, or an empty string when the stack says nothing.
    """
    for line in state.stack:
        if line.file.endswith("distributed_c10d.py"):
            if line.function in POINT_TO_POINT or _COLLECTIVE.match(line.function):
                return line.function
        elif line.user:
            found = _CALL.search(line.text)
            return found.group(1) if found else ""
    return ""


def is_asleep(state: RankState) -> bool:
    """Tell whether the main thread sleeps on a timer, as `time.sleep` does."""
    if any(nap in state.process.waits_in for nap in _NAPS):
        return True
    inner = innermost(state)
    idle = state.process.cpu < BUSY_CPU and "futex" not in state.process.waits_in
    return inner is not None and idle and "sleep(" in inner.text


def is_blocked(state: RankState) -> bool:
    """Tell whether the main thread waits in an operation, given that one is incomplete."""
    if state.gil_held or state.phase in ("exception", "exit") or is_asleep(state):
        return False
    inner = innermost(state)
    running = state.process.cpu >= BUSY_CPU
    if inner is None:
        return not running
    if inner.file.endswith("distributed_c10d.py") and call_in_progress(state):
        return True
    if waits_on_host(inner):
        return False
    if running:
        return _spins_for_device(state, inner)
    return _waits_in_thread(state) if in_torch(inner) else _user_line_waits(state, inner)


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


def _spins_for_device(state: RankState, inner: CodeLine) -> bool:
    # Waiting for a GPU burns a core, so there high cpu is no sign of work.
    on_gpu = any("nccl" in g.backend for g in state.groups if g.enqueued > g.completed)
    return on_gpu and (in_torch(inner) or bool(_WAITS_FOR_DEVICE.search(inner.text)))


def _user_line_waits(state: RankState, inner: CodeLine) -> bool:
    if _CALL.search(inner.text) or _WAITS_FOR_DEVICE.search(inner.text):
        return True
    return _waits_in_thread(state)


def _waits_in_thread(state: RankState) -> bool:
    """Tell whether the main thread waits for another thread, as it does in `Work.wait`."""
    where = state.process.waits_in
    return "futex" in where or (where in ("", "0") and state.process.state != "R")
