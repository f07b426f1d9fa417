"""`torch.distributed` with timeouts: a drop-in.

Everything in `torch.distributed` is here. All collectives, sends, receives, barriers and object
collectives also take `timeout=` (seconds or timedelta); when it passes, every rank that waits gets
`CollectiveTimeout`, which says which ranks have not arrived and what each is doing instead.
Without a timeout a call goes straight to torch. See docs/timeouts-dist.md for what to do then.

Example:
    import unstuck.dist as dist

    dist.init_process_group("gloo")
    try:
        dist.all_reduce(tensor, timeout=30)
    except dist.CollectiveTimeout as error:
        print(error.missing, error)
"""

from typing import TYPE_CHECKING, Any

from unstuck.dist.base.errors import CollectiveTimeout, Overdue
from unstuck.dist.base.limits import deadline
from unstuck.dist.base.peers import Peer
from unstuck.errors import GroupBusyError, GroupGivenUpError, RebuildError, TensorInUseError

if TYPE_CHECKING:
    from unstuck.dist.rebuilding.leaving import destroy_process_group, leave
    from unstuck.dist.rebuilding.rebuild_group import rebuild
    from unstuck.dist.timed.giving_up import give_up
    from unstuck.dist.timed.messages import barrier

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
    """Define the timed functions here, and watch the creation of process groups from now on."""
    from unstuck.dist.base import sockets
    from unstuck.dist.rebuilding import leaving
    from unstuck.dist.rebuilding.rebuild_group import rebuild
    from unstuck.dist.resilient.respawned import init_process_group
    from unstuck.dist.timed import collectives, giving_up, messages

    sockets.install(giving_up.join_roll_call)
    leaving.install()
    names = globals()
    names.update(collectives.all_timed())
    names.update(messages.all_timed())
    others = (
        init_process_group,
        leaving.destroy_process_group,
        giving_up.give_up,
        leaving.leave,
        rebuild,
    )
    names.update({function.__name__: function for function in others})


def __getattr__(name: str) -> Any:
    """Fall back to torch."""
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
