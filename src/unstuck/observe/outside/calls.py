"""What a stack read from outside says of the operation that a rank is in: pure functions.

There is no counter here: which operation of a group it is, and of which group, is known only as
far as the arguments of the call show it.
"""

import re

from msgspec import Struct

from unstuck.model.neighbour import KernelWait, kernel_wait
from unstuck.model.rank import CodeLine, GroupProgress, Operation, PointToPoint
from unstuck.observe.outside.pyspy import ThreadStack

DEFAULT = "default_pg"
"""The group of all ranks, as torch calls it."""
UNKNOWN = "?"
"""A group that the script made: which one is not seen."""
_COLLECTIVE = re.compile(
    r"^_?(all_reduce|all_gather|all_to_all|reduce_scatter|broadcast|reduce|gather|scatter|barrier)"
    r"(_\w+)?$"
)
_MESSAGE = re.compile(r"^(send|recv)$")
_INIT = ("init_process_group", "_new_process_group_helper", "rendezvous", "_create_c10d_store")
_WAITS = re.compile(r"\.(wait|synchronize|item|cpu|tolist)\(")
_IN_C = (
    ("torch/autograd/graph.py", "_engine_run_backward", "all_reduce in backward"),
    ("torch/distributed/_functional_collectives.py", "wait_tensor", "wait_tensor"),
    ("torch/_ops.py", "__call__", "wait_tensor"),
    ("torch/distributed/utils.py", "_sync_module_states", "broadcast"),
    ("torch/nn/parallel/distributed.py", "", "broadcast of DDP"),
    ("torch/distributed/fsdp/", "", "collective of FSDP"),
)
"""Where Python's frames end above a collective that C++ waits for."""


class Call(Struct, frozen=True):
    """The operation of torch.distributed that a thread waits in."""

    op: str
    group: str = DEFAULT
    """`DEFAULT` or `UNKNOWN`."""
    peer: int = -1
    """The other rank of a send or receive; -1 for any, or unknown."""
    tag: int = 0
    message: bool = False
    exact: bool = True
    """The function was seen; not only that C++ waits below a line of torch or of the script."""


def in_init(thread: ThreadStack) -> bool:
    """Tell whether a thread is inside `init_process_group`."""
    return any(
        one.function in _INIT and one.file.endswith(("distributed_c10d.py", "rendezvous.py"))
        for one in thread.frames
    )


def call_of(thread: ThreadStack, waits_in: str) -> Call | None:
    """Find the collective, send or receive that a thread is in; None if it is in none.

    `waits_in` is the kernel function that it sleeps in.
    """
    for one in thread.frames:
        if one.file.endswith("/distributed_c10d.py"):
            if _MESSAGE.match(one.function):
                return _message(one.function, thread.arguments)
            if _COLLECTIVE.match(one.function) and one.function != "monitored_barrier":
                return Call(one.function, _group(thread.arguments))
        elif "/torch/" not in one.file:
            break
    waits = kernel_wait(waits_in) is KernelWait.LOCK
    return _in_c(thread.frames) if thread.frames and waits else None


def _group(arguments: dict[str, str]) -> str:
    return DEFAULT if arguments.get("group") == "default" else UNKNOWN


def _message(kind: str, arguments: dict[str, str]) -> Call:
    peer = arguments.get("src" if kind == "recv" else "dst", "")
    tag = arguments.get("tag", "")
    return Call(
        kind,
        _group(arguments),
        peer=int(peer) if peer.isdigit() else -1,
        tag=int(tag) if tag.isdigit() else 0,
        message=True,
    )


def _in_c(frames: tuple[CodeLine, ...]) -> Call | None:
    inner = frames[0]
    for file, function, op in _IN_C:
        if file in inner.file and function in ("", inner.function):
            return Call(op, UNKNOWN, exact=False)
    if "/torch/" not in inner.file and _WAITS.search(inner.text):
        return Call("wait", UNKNOWN, exact=False)
    return None


def progress(call: Call | None, ranks: tuple[int, ...], age: float) -> tuple[GroupProgress, ...]:
    """Say how far a rank is, without a counter: in the operation, or not yet.

    Numbers count from 1, so 0 stands for an operation whose number is not known.
    """
    if call is None or call.message:
        return (GroupProgress(DEFAULT, ranks, -1, -1, description=DEFAULT),)
    pending = Operation(DEFAULT, 0, call.op, age=age)
    return (GroupProgress(DEFAULT, ranks, 0, -1, description=DEFAULT, pending=(pending,)),)


def messages(call: Call | None, age: float) -> tuple[PointToPoint, ...]:
    """Return the send or receive that a rank is in."""
    if call is None or not call.message:
        return ()
    return (PointToPoint(call.op, DEFAULT, call.peer, 0, call.tag, age),)
