"""The root of broadcast, reduce, gather and scatter, which the flight recorder does not keep.

They are rare compared with all_reduce, and a wrong root hangs without any message.
"""

from collections import deque
from typing import Any

from unstuck.observe.probe.calls import kernels

_OPERATIONS = {"broadcast_": (1, 2), "reduce_": (1, 3), "gather_": (2, 3), "scatter_": (2, 3)}
"""Where the process group and the root stand among the arguments."""
_MOST_KEPT = 16


class RootLog:
    """The last roots per group; the training thread only appends to a deque."""

    def __init__(self) -> None:
        self._fresh: deque[tuple[str, Any, int]] = deque(maxlen=256)
        self._roots: dict[str, deque[list[Any]]] = {}
        self._c10d: Any = None

    def install(self, c10d: Any) -> None:
        """See the root of every such operation from now on. Once per process."""
        if self._c10d is None:
            self._c10d = c10d
            kernels.install(_OPERATIONS, self._note)

    def _note(self, operation: str, args: tuple[Any, ...], _work: Any) -> None:
        group_at, root_at = _OPERATIONS[operation]
        if len(args) > root_at:
            self._fresh.append((operation.rstrip("_"), args[group_at], args[root_at]))

    def look(self) -> dict[str, list[list[Any]]]:
        """Return [operation, global rank of the root] per group, oldest first. Helper thread."""
        while self._fresh:
            name, boxed, root = self._fresh.popleft()
            group = self._c10d.torch._C._distributed_c10d.ProcessGroup.unbox(boxed)
            kept = self._roots.setdefault(str(group.group_name), deque(maxlen=_MOST_KEPT))
            kept.append([name, self._c10d.get_global_rank(group, root)])
        return {name: list(kept) for name, kept in self._roots.items()}
