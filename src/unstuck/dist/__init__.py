"""`torch.distributed` with timeouts: a drop-in.

Everything `torch.distributed` has is here. All collectives, sends, receives, barriers and object
collectives also take `timeout=` (seconds or timedelta); when it passes, every rank that waits
gets `CollectiveTimeout`, which says which ranks did not come and what each does instead. Without
a timeout a call goes straight to torch. See docs/timeouts.md for what may be done afterwards.

Example:
    import unstuck.dist as dist

    dist.init_process_group("gloo")
    try:
        dist.all_reduce(tensor, timeout=30)
    except dist.CollectiveTimeout as error:
        print(error.missing, error)
"""

from typing import TYPE_CHECKING, Any

from unstuck.dist.errors import CollectiveTimeout, Overdue
from unstuck.dist.limits import deadline
from unstuck.dist.peers import Peer
from unstuck.errors import GroupBusyError, GroupGivenUpError, RebuildError, TensorInUseError

if TYPE_CHECKING:
    from unstuck.dist.leaving import destroy_process_group, give_up, leave
    from unstuck.dist.p2p import barrier
    from unstuck.dist.rebuilding import rebuild

__all__ = [
    "CollectiveTimeout",
    "Overdue",
    "Peer",
    "deadline",
    "give_up",
    "rebuild",
    "leave",
    "barrier",
    "destroy_process_group",
    "TensorInUseError",
    "GroupBusyError",
    "GroupGivenUpError",
    "RebuildError",
]


def _install() -> None:
    """Put the timed functions here, and watch the making of process groups from now on."""
    from unstuck.dist import calls, leaving, p2p, respawned, sockets
    from unstuck.dist.rebuilding import rebuild

    def made(pg: Any, store: Any, default: bool) -> None:
        if default:
            leaving.take_part(pg, store)

    sockets.install(made)
    leaving.install()
    names = globals()
    names.update(calls.all_timed())
    names.update(p2p.all_timed())
    for name, position in (("send_object_list", 2), ("recv_object_list", 2)):
        names[name] = p2p.counted(names[name], position)
    names["rebuild"] = rebuild
    names["init_process_group"] = respawned.init_process_group
    for function in (leaving.destroy_process_group, leaving.give_up, leaving.leave):
        names[function.__name__] = function


def __getattr__(name: str) -> Any:
    """Pass on what is torch's."""
    try:
        import torch.distributed
    except ImportError as error:
        raise ImportError("unstuck.dist needs torch, which is not installed") from error
    try:
        return getattr(torch.distributed, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    try:
        import torch.distributed
    except ImportError:
        return sorted(globals())
    return sorted({*globals(), *dir(torch.distributed)})


try:
    _install()
except ModuleNotFoundError as _error:
    if (_error.name or "").split(".")[0] != "torch":
        raise
