"""Python kernels for a few operations of torch.distributed that the flight recorder omits.

A kernel at dispatch key BackendSelect sees every call, notes it, and hands it on with the GIL
released (never enter gloo while holding the GIL: its worker thread wants it). About 10
microseconds a call; other operations are not touched.
"""

from collections.abc import Callable, Iterable
from typing import Any

Note = Callable[[str, tuple[Any, ...], Any], None]
"""Called with the operation, its arguments and its work, in the training thread."""


def install(operations: Iterable[str], note: Note) -> list[Any]:
    """Have `note` called after every such operation is issued; keep what this returns alive."""
    import torch

    after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    libraries: list[Any] = []
    for operation in operations:
        redispatch = getattr(torch.ops.c10d, operation).default._handle.redispatch_boxed
        library = torch.library.Library("c10d", "IMPL")
        kernel = _kernel(operation, redispatch, after, note)
        library.impl(operation, kernel, "BackendSelect", with_keyset=True)
        libraries.append(library)
    return libraries


def _kernel(operation: str, redispatch: Any, after: Any, note: Note) -> Any:
    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        work = redispatch(keys & after, *args, **kwargs)
        note(operation, args, work)
        return work

    return kernel
