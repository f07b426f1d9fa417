"""Python kernels for operations of torch.distributed that the flight recorder omits.

A kernel at dispatch key BackendSelect sees every call, notes it, and hands it on with the GIL
released (never enter gloo while holding the GIL: its worker thread wants it). About 10
microseconds a call; other operations are not touched.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

Note = Callable[[str, tuple[Any, ...], Any], None]
"""Called with the operation, its arguments and its work, in the training thread."""
_notes: dict[str, list[Note]] = {}
_libraries: list[Any] = []


def install(operations: Iterable[str], note: Note) -> None:
    """Have `note` called after every such operation is issued, for the life of the process.

    One kernel serves all who want to know: torch keeps a single one for each operation. An
    operation that this torch does not have is left out.
    """
    import torch

    after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    for operation in operations:
        if operation in _notes:
            _notes[operation].append(note)
        elif hasattr(torch.ops.c10d, operation):
            redispatch = getattr(torch.ops.c10d, operation).default._handle.redispatch_boxed
            notes = _notes[operation] = [note]
            library = torch.library.Library("c10d", "IMPL")
            kernel = _kernel(operation, redispatch, after, notes)
            library.impl(operation, kernel, "BackendSelect", with_keyset=True)
            _libraries.append(library)


def _kernel(operation: str, redispatch: Any, after: Any, notes: list[Note]) -> Any:
    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        work = redispatch(keys & after, *args, **kwargs)
        for note in notes:
            with contextlib.suppress(Exception):
                note(operation, args, work)
        return work

    return kernel
