"""Destroying groups and leaving, without a hang or a crash."""

import atexit
import contextlib
from typing import Any

from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import groups, held, sockets, waiting
from unstuck.dist.missing import rollcall
from unstuck.dist.timed.giving_up import PATIENCE, give_up_group


def destroy_process_group(group: Any = None) -> None:
    """Destroy a group like torch does, but first end what would make that hang."""
    if group is None or group is c10d.GroupMember.WORLD:
        rollcall.leave()
    end(group)


def end(group: Any = None) -> None:
    """Destroy a group, but keep answering the roll call."""
    whole = group is None or group is c10d.GroupMember.WORLD
    if not whole and groups.resolve(group) is None:
        return
    ending = [groups.describe(pg) for pg in list(c10d._world.pg_map) if whole or pg is group]
    for each in ending:
        if held.unfinished(each.name):
            give_up_group(each)
    c10d.destroy_process_group(group)
    for each in ending:
        held.forget(each.name)
        sockets.forget(each.name)
        groups.SENT.pop(each.name, None)


def leave() -> None:
    """End all unfinished operations and all groups, so that the program can exit.

    Without it, a timed-out operation would keep the interpreter from exiting until the group's own
    timeout. It also runs automatically at the end of a program in which an operation timed out.

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
    waiting.join_threads(PATIENCE)
    if not held.unfinished():
        destroy_process_group()


def install() -> None:
    """Leave at interpreter exit if something was left behind that would block it."""
    atexit.register(_at_exit)


def _at_exit() -> None:
    with contextlib.suppress(Exception):
        if held.unfinished() or held.any_given_up():
            leave()
        rollcall.leave()
