"""The collectives of this rank where torch's flight recorder does not record them.

Kept in the recorder's own form, so that what reads a recorder reads this too. The training
thread pays some 9 microseconds a call, which is why this is used only where it has to be.
"""

import itertools
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from unstuck.observe.probe.calls import kernels


class _Arguments(NamedTuple):
    name: str
    """As the flight recorder calls it."""
    group: int
    """Where the process group stands among the arguments."""
    inputs: int | None
    """Where the tensors that go in do."""


_OPERATIONS = {
    "allreduce_": _Arguments("all_reduce", 1, 0),
    "allreduce_coalesced_": _Arguments("all_reduce", 1, 0),
    "broadcast_": _Arguments("broadcast", 1, 0),
    "reduce_": _Arguments("reduce", 1, 0),
    "barrier": _Arguments("barrier", 1, None),
    "allgather_": _Arguments("all_gather", 2, 1),
    "_allgather_base_": _Arguments("all_gather", 2, 1),
    "allgather_coalesced_": _Arguments("all_gather", 2, 1),
    "allgather_into_tensor_coalesced_": _Arguments("all_gather", 2, 1),
    "gather_": _Arguments("gather", 2, 1),
    "scatter_": _Arguments("scatter", 2, 1),
    "reduce_scatter_": _Arguments("reduce_scatter", 2, 1),
    "_reduce_scatter_base_": _Arguments("reduce_scatter", 2, 1),
    "reduce_scatter_tensor_coalesced_": _Arguments("reduce_scatter", 2, 1),
    "alltoall_": _Arguments("all_to_all", 2, 1),
    "alltoall_base_": _Arguments("all_to_all", 2, 1),
}
_MOST_KEPT = 32
"""Calls of a group that are remembered: more than are ever in flight at once on a CPU."""
_MOST_SHOWN = 8
_MOST_SHOWN_IN_ALL = 48
"""Some 10 kB of the page."""
_MOST_TENSORS = 4
_DTYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char",
    "uint8": "Byte", "bool": "Bool",
}  # fmt: skip


class _Call:
    """One collective; its work is let go of when it has completed, as it holds the tensors."""

    __slots__ = ("at", "number", "operation", "tensors", "work")

    def __init__(self, number: int, operation: str, tensors: list[Any], work: Any) -> None:
        self.number = number
        self.operation = operation
        self.tensors = tensors
        self.work = work
        self.at = time.time_ns()

    def is_done(self) -> bool:
        work = self.work
        if work is not None and work.is_completed():
            self.work = None
        return self.work is None


class _Group:
    """The last calls of one process group."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.issued = 0
        self.calls: deque[_Call] = deque(maxlen=_MOST_KEPT)

    def progress(self) -> tuple[int, int]:
        pending = next((call.number for call in list(self.calls) if not call.is_done()), None)
        return self.issued, self.issued if pending is None else pending - 1


class CallLog:
    """What was called in each process group, and how far that is."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._bindings: Any = None

    @property
    def is_on(self) -> bool:
        """True when collectives are seen here and not in torch's recorder."""
        return self._bindings is not None

    def install(self, c10d: Any) -> None:
        """See every collective on CPU tensors from now on. Once per process."""
        if not self.is_on:
            self._bindings = c10d.torch._C._distributed_c10d
            kernels.install(_OPERATIONS, self._note)

    def _note(self, operation: str, args: tuple[Any, ...], work: Any) -> None:
        """Remember one call. In the training thread, and called from C++ too (DDP, FSDP)."""
        name, group_at, inputs_at = _OPERATIONS[operation]
        if not _is_on_cpu(args[0]):
            return
        tensors = [] if inputs_at is None else _described(args[inputs_at])
        group_name = str(self._bindings.ProcessGroup.unbox(args[group_at]).group_name)
        group = self._groups.get(group_name) or self._groups.setdefault(group_name, _Group())
        if group.calls:
            group.calls[-1].is_done()
        boxed = work[-1] if isinstance(work, (tuple, list)) else work
        number = next(group.numbers)
        group.calls.append(_Call(number, name, tensors, self._bindings.Work.unbox(boxed)))
        group.issued = number

    def issued(self, group: str) -> int:
        """Return how many collectives were issued in a group."""
        found = self._groups.get(group)
        return found.issued if found else 0

    def status(self) -> dict[str, tuple[int, int]]:
        """Return (issued, completed) per group. For the helper thread."""
        return {name: group.progress() for name, group in list(self._groups.items())}

    def entries(self) -> list[dict[str, Any]]:
        """Return the last calls of each group as the flight recorder would write them."""
        found = [
            (call, name)
            for name, group in list(self._groups.items())
            for call in list(group.calls)[-_MOST_SHOWN:]
        ]
        found.sort(key=lambda pair: pair[0].at)
        return [_entry(name, call) for call, name in found[-_MOST_SHOWN_IN_ALL:]]


def _is_on_cpu(given: Any) -> bool:
    """Tell it by the first tensor: of a tensor, a list of them, or a list of lists."""
    while not hasattr(given, "device") and given:
        given = given[0]
    return getattr(getattr(given, "device", None), "type", "cpu") == "cpu"


def _described(given: Any) -> list[tuple[list[int], str]]:
    """Return shape and type of the tensors that go in; of a list of lists as the recorder does."""
    if hasattr(given, "shape"):
        return [_shape_and_type(given)]
    return [each for one in given[:_MOST_TENSORS] for each in _flat(one)]


def _flat(one: Any) -> Iterator[tuple[list[int], str]]:
    if hasattr(one, "shape"):
        yield _shape_and_type(one)
    elif one:
        shape, dtype = _shape_and_type(one[0])
        yield [len(one), *shape], dtype


def _shape_and_type(tensor: Any) -> tuple[list[int], str]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return list(tensor.shape), _DTYPES.get(dtype, dtype)


def _entry(group: str, call: _Call) -> dict[str, Any]:
    return {
        "process_group": [group, ""],
        "collective_seq_id": call.number,
        "profiling_name": f"gloo:{call.operation}",
        "input_sizes": [shape for shape, _ in call.tensors],
        "input_dtypes": [dtype for _, dtype in call.tensors],
        "time_created_ns": call.at,
        "retired": call.is_done(),
        "is_p2p": False,
    }
