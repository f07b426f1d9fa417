"""Which sockets belong to which process group, and how to shut them down.

No torch call ends a hung gloo collective; `shutdown(2)` on the group's sockets does, in less than
a millisecond. To find them, the open sockets before and after a group is created are compared.
"""

import contextlib
import functools
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.distributed import distributed_c10d as c10d

from unstuck.errors import UserError


@dataclass(frozen=True)
class Found:
    """One TCP socket of this process."""

    fd: int
    inode: str
    local: tuple[str, int]
    remote: tuple[str, int] | None
    """None: a listening socket."""


_of_group: dict[str, list[Found]] = {}


def install(on_default_group: Callable[[Any, Any], None]) -> None:
    """Watch the creation of every process group from now on. Once per process.

    `on_default_group` gets every new default group and its store.
    """
    original: Any = getattr(c10d, "_new_process_group_helper", None)
    if original is None or hasattr(original, "unstuck_watches"):
        return

    @functools.wraps(original)
    def helper(*args: Any, **kwargs: Any) -> Any:
        before = _look()
        made = original(*args, **kwargs)
        with contextlib.suppress(Exception):
            _note(made[0], made[1], before)
        with contextlib.suppress(Exception):
            if len(args) > 2 and not args[2]:
                on_default_group(made[0], made[1])
        return made

    helper.unstuck_watches = True  # type: ignore[attr-defined]
    c10d._new_process_group_helper = helper


def shut(name: str, size: int) -> None:
    """Shut down the sockets of a group; operations that wait on them fail at once."""
    if size == 1:
        return
    known = _of_group.get(name)
    if known is None:
        raise UserError(
            f"the sockets of group {name!r} are not known: the group was created before"
            " unstuck.dist was imported",
            hint="import unstuck.dist before init_process_group",
        )
    for found in known:
        _shut(found)


def known(name: str) -> bool:
    """Tell whether the sockets of a group are known."""
    return name in _of_group


def forget(name: str) -> None:
    """Forget a group that no longer exists."""
    _of_group.pop(name, None)


def address_of(name: str) -> str:
    """Return the local address of the group's connections; empty: not known."""
    return next((found.local[0] for found in _of_group.get(name, [])), "")


def _shut(found: Found) -> None:
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/self/fd/{found.fd}") == found.inode:
            with socket.socket(fileno=os.dup(found.fd)) as copy:
                copy.shutdown(socket.SHUT_RDWR)


def _note(pg: Any, store: Any, before: dict[str, Found]) -> None:
    if not isinstance(pg, c10d.ProcessGroup):
        return
    after = _look()
    new = [found for inode, found in after.items() if inode not in before]
    listening = {found.local[1] for found in new if found.remote is None}
    others = {f.local[1] for f in before.values() if f.remote is None} | _store_ports(store)
    own = [
        found
        for found in new
        if found.remote is not None
        and found.local[1] not in others
        and (found.local[1] in listening or found.remote[1] not in others)
    ]
    if not new and known(str(pg.group_name)):
        return  # torch returned an existing group
    _of_group.pop(str(pg.group_name), None)
    # One connection to every other member. More means that something else was opened at the same
    # time, for example a group by another thread: then the sockets cannot be told apart.
    if len(own) == pg.size() - 1:
        _of_group[str(pg.group_name)] = own


def _store_ports(store: Any) -> set[int]:
    ports: set[int] = set()
    while store is not None:
        port = getattr(store, "port", None)
        if isinstance(port, int):
            ports.add(port)
        store = getattr(store, "underlying_store", None)
    return ports


def _look() -> dict[str, Found]:
    try:
        return {found.inode: found for found in _tcp_sockets()}
    except OSError:
        return {}  # no /proc here


def _tcp_sockets() -> Iterator[Found]:
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            inode = os.readlink(f"/proc/self/fd/{entry}")
            if not inode.startswith("socket:["):
                continue
            with socket.socket(fileno=os.dup(int(entry))) as copy:
                if copy.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                if copy.type != socket.SOCK_STREAM:
                    continue
                listens = copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                local = copy.getsockname()[:2]
                remote = None if listens else copy.getpeername()[:2]
            yield Found(int(entry), inode, local, remote)
