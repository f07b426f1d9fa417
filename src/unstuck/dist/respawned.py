"""A rank that was started again by itself: it joins a training that goes on, not a new one."""

import os
from datetime import timedelta
from typing import Any

from torch.distributed import HashStore
from torch.distributed import distributed_c10d as c10d
from torch.distributed.rendezvous import rendezvous


def is_respawned() -> bool:
    """Tell whether the others have begun without this process."""
    return "UNSTUCK_RESPAWNED" in os.environ


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """Make the default group like torch does; in a rank that was started again, one of its own.

    The others do not make theirs again. They let this rank into theirs when its training function
    is called, if that is `@unstuck.resilient`.
    """
    if not is_respawned():
        c10d.init_process_group(*args, **kwargs)
        return
    backend = args[0] if args else kwargs.get("backend")
    given: timedelta | None = kwargs.get("timeout")
    c10d.init_process_group(backend, store=HashStore(), rank=0, world_size=1, timeout=given)


def seat() -> tuple[int, int]:
    """Return the rank that this process began with and the size of the first world."""
    if is_respawned():
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return c10d.get_rank(), c10d.get_world_size()


def first_store() -> Any:
    """Return the store of the first default group."""
    if not is_respawned():
        return c10d._get_default_store()
    rank, size = seat()
    store, _, _ = next(rendezvous("env://", rank, size))
    return c10d.PrefixStore("default_pg", store)
