"""Giving a group up, and leaving without a hang or a crash."""

import atexit
import contextlib
from typing import Any

from torch.distributed import distributed_c10d as c10d

from unstuck.dist import groups, held, rollcall, sockets, waiting
from unstuck.dist.groups import Group

_PATIENCE = 2.0
"""Seconds for what hangs to end once its sockets are shut; it takes milliseconds."""


def give_up(group: Any = None) -> None:
    """End every operation of a group that is under way, here and so in the other ranks.

    On return none of them writes into a tensor any more. The group cannot be used again:
    `rebuild()` makes it new.
    """
    resolved = groups.resolve(group)
    if resolved is not None:
        give_up_group(resolved)


def given_up_elsewhere(name: str) -> None:
    """Follow another rank that gave a group up: nothing on it can complete any more."""
    group = groups.of_name(name)
    if group is not None:
        give_up_group(group, announce=False)


def give_up_group(group: Group, *, announce: bool = True) -> None:
    """Shut the sockets of a group, and wait until what hung on them has ended."""
    if held.given_up(group):
        return
    under_way = held.unfinished(group.name)
    if announce:
        held.announce(group.name)
    if group.backend("cpu") == "gloo":
        sockets.shut(group.name, len(group.ranks))
    if any(group.backend(device) not in ("", "gloo") for device in ("cuda", "xpu")):
        group.pg.abort()
    if announce:
        _tell(group)
    for work in under_way:
        waiting.end_of(work.waiter, _PATIENCE)
    held.give_up(group)


def _tell(group: Group) -> None:
    """A rank that waits for a third one does not notice that this one has hung up."""
    roll = rollcall.current(c10d.GroupMember.WORLD)
    if roll is not None and len(group.ranks) <= rollcall.MOST_ASKED:
        others = [rank for rank in group.ranks if rank != group.rank]
        roll.tell_given_up(group.name, others, 0.2)


def take_part(pg: Any, store: Any) -> None:
    """Join the roll call of a default group."""
    rollcall.join(pg, store, given_up_elsewhere)


def destroy_process_group(group: Any = None) -> None:
    """Destroy a group like torch does, but end first what would make that hang."""
    if group is None or group is c10d.GroupMember.WORLD:
        rollcall.leave()
    end(group)


def end(group: Any = None) -> None:
    """Destroy a group; of the default one, go on to answer who asks what became of it."""
    whole = group is None or group is c10d.GroupMember.WORLD
    if not whole and groups.resolve(group) is None:
        return
    going = [groups.describe(pg) for pg in list(c10d._world.pg_map) if whole or pg is group]
    for each in going:
        if held.unfinished(each.name):
            give_up_group(each)
    c10d.destroy_process_group(group)
    for each in going:
        held.forget(each.name)
        sockets.forget(each.name)
        groups.SENT.pop(each.name, None)


def leave() -> None:
    """End everything that is under way and all groups; then the program can exit.

    Without it a timed-out operation would keep the interpreter from ending until the group's own
    timeout. It also runs by itself when a program that had a timeout ends.

    Example:
        except dist.CollectiveTimeout as error:
            print(error)
            dist.leave()
            sys.exit(1)
    """
    if not c10d.is_initialized():
        return
    for pg in list(c10d._world.pg_map):
        group = groups.describe(pg)
        if held.unfinished(group.name) and sockets.known(group.name):
            give_up_group(group)
    waiting.join_threads(_PATIENCE)
    if not held.unfinished():
        destroy_process_group()


def at_exit() -> None:
    """Leave when the interpreter ends, if something was left behind that would block it."""
    with contextlib.suppress(Exception):
        if held.unfinished() or held.any_given_up():
            leave()
        rollcall.leave()


def install() -> None:
    """Be there when the interpreter ends."""
    atexit.register(at_exit)
