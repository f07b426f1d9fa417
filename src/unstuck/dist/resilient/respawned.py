"""A rank that was restarted on its own: it joins a running training instead of a new one."""

import contextlib
import os
from collections.abc import Generator
from datetime import timedelta
from typing import Any

from torch.distributed import HashStore
from torch.distributed import distributed_c10d as c10d
from torch.distributed.rendezvous import rendezvous

from unstuck.errors import RebuildError
from unstuck.script import respawn


def is_respawned() -> bool:
    """Tell whether the other ranks have started without this process."""
    return "UNSTUCK_RESPAWNED" in os.environ


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """Create the default group like torch does; in a restarted rank, one of its own.

    The other ranks do not create theirs again. They let this rank join when its training function
    is called, if that is `@unstuck.resilient`.
    """
    if not is_respawned():
        c10d.init_process_group(*args, **kwargs)
        return
    backend = args[0] if args else kwargs.get("backend")
    timeout: timedelta | None = kwargs.get("timeout")
    c10d.init_process_group(backend, store=HashStore(), rank=0, world_size=1, timeout=timeout)


def seat() -> tuple[int, int]:
    """Return the rank with which this process started, and the size of the first world."""
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


@contextlib.contextmanager
def may_be_restarted(seat: int) -> Generator[None]:
    """Leave a mark for this rank's guard that it may be restarted on its own.

    The mark stays if the process dies or the script raises an exception; not if the remaining
    ranks cannot continue.
    """
    mark = respawn.mark_path(seat)
    if not mark:
        yield
        return
    with contextlib.suppress(OSError), open(mark, "w"):
        pass
    try:
        yield
    except Exception as error:
        if not any(isinstance(one, RebuildError) for one in (error, error.__cause__)):
            raise
        _remove(mark)
        raise
    _remove(mark)


def _remove(mark: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(mark)
