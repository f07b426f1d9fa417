"""The root of broadcast, reduce, gather and scatter, which the flight recorder does not keep.

The same kind of kernel as for sends and receives (see `p2p.py`), on these four operations
only: they are rare beside all_reduce, and a wrong root hangs without a word.
"""

from collections import deque
from typing import Any

_OPERATIONS = {"broadcast_": (1, 2), "reduce_": (1, 3), "gather_": (2, 3), "scatter_": (2, 3)}
"""Where the process group and the root stand among the arguments."""
_MOST_KEPT = 16


class RootLog:
    """The last roots per group; the training thread only appends to a deque."""

    def __init__(self) -> None:
        self._fresh: deque[tuple[str, Any, int]] = deque(maxlen=256)
        self._roots: dict[str, deque[list[Any]]] = {}
        self._kernels: list[Any] = []
        self._c10d: Any = None

    def install(self, c10d: Any) -> None:
        """See the root of every such operation from now on. Once per process."""
        if self._kernels:
            return
        import torch

        self._c10d = c10d
        after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        for operation, places in _OPERATIONS.items():
            redispatch = getattr(torch.ops.c10d, operation).default._handle.redispatch_boxed
            library = torch.library.Library("c10d", "IMPL")
            kernel = self._kernel(operation.rstrip("_"), places, redispatch, after)
            library.impl(operation, kernel, "BackendSelect", with_keyset=True)
            self._kernels.append(library)

    def _kernel(self, name: str, places: tuple[int, int], redispatch: Any, after: Any) -> Any:
        note, (group_at, root_at) = self._fresh.append, places

        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            work = redispatch(keys & after, *args, **kwargs)
            if len(args) > root_at:
                note((name, args[group_at], args[root_at]))
            return work

        return kernel

    def look(self) -> dict[str, list[list[Any]]]:
        """Return [operation, global rank of the root] per group, oldest first. Helper thread."""
        while self._fresh:
            name, boxed, root = self._fresh.popleft()
            group = self._c10d.torch._C._distributed_c10d.ProcessGroup.unbox(boxed)
            kept = self._roots.setdefault(str(group.group_name), deque(maxlen=_MOST_KEPT))
            kept.append([name, self._c10d.get_global_rank(group, root)])
        return {name: list(kept) for name, kept in self._roots.items()}
