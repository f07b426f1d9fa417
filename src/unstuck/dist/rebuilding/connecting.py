"""Making a process group again, from some of its ranks."""

import sys
import time
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import groups, held, sockets
from unstuck.dist.base.groups import Group
from unstuck.dist.rebuilding import leaving
from unstuck.dist.timed.giving_up import give_up_group
from unstuck.errors import RebuildError, UserError


class Plan(NamedTuple):
    """How a group was made, to make it again."""

    old: Group
    base: Any
    """The store of the first default group, through which all later ones meet."""
    whole: bool
    """It is the default group."""
    backend: str
    timeout: timedelta


class _Base(NamedTuple):
    store: Any
    pg: Any


_base: _Base | None = None
_lost: Plan | None = None
"""The default group, when making a new one failed after the old one was destroyed."""
generation: dict[str, int] = {}
"""How many rounds of rebuilding each group has been through."""


def plan_of(group: Any) -> Plan:
    """Look up how a group was made; None: the default group."""
    if group is None and not c10d.is_initialized() and _lost is not None:
        return _lost
    old = groups.resolve(group)
    if old is None:
        raise UserError("group: this rank is not a member")
    backend = str(c10d._world.pg_map[old.pg][0])
    own: Any = old.pg._get_backend(torch.device("cpu" if old.backend("cpu") else "cuda"))
    whole = old.pg is c10d._get_default_group()
    return Plan(old, _base_store(), whole, backend, own.options._timeout)


def _base_store() -> Any:
    global _base
    default = c10d._get_default_group()
    if _base is None or _base.pg is not default:
        _base = _Base(c10d._get_default_store(), default)
        generation.clear()
    return _base.store


def give_up(plan: Plan) -> None:
    """End the group's unfinished operations; for the default group, those of all groups."""
    if plan.whole and not c10d.is_initialized():
        return
    ending = [groups.describe(pg) for pg in list(c10d._world.pg_map)] if plan.whole else [plan.old]
    for each in ending:
        if sockets.known(each.name) or held.unfinished(each.name):
            give_up_group(each)


def connect(plan: Plan, ranks: list[int], store: Any, until: float) -> Any:
    """Make the group from these ranks, all of which call this, and return it."""
    # gloo waits five times this long for its connections; with all ranks here it takes 20 ms.
    patience = timedelta(seconds=max(1.0, (until - time.monotonic()) / 5))
    try:
        made = (_new_world if plan.whole else _new_group)(plan, ranks, store, patience)
    except RuntimeError as error:
        raise RebuildError(
            f"the ranks met, but could not connect: {error}", hint="call rebuild() again"
        ) from error
    c10d._set_pg_timeout(plan.timeout, made)
    return made


def _new_world(plan: Plan, ranks: list[int], store: Any, patience: timedelta) -> Any:
    global _base, _lost
    if c10d.is_initialized():
        leaving.end()
    _lost = plan
    _restore_excepthook()
    c10d.init_process_group(
        plan.backend,
        timeout=patience,
        store=store,
        rank=ranks.index(plan.old.rank),
        world_size=len(ranks),
    )
    _lost = None
    made: Any = c10d._get_default_group()
    _base = _Base(plan.base, made)
    return made


def _restore_excepthook() -> None:
    """Undo torch's traceback prefix: each new default group would add another one."""
    hook: Any = sys.excepthook
    if getattr(hook, "__name__", "") == "_distributed_excepthook":
        cells = dict(zip(hook.__code__.co_freevars, hook.__closure__ or (), strict=True))
        if "old_hook" in cells:
            sys.excepthook = cells["old_hook"].cell_contents


def _new_group(plan: Plan, ranks: list[int], store: Any, patience: timedelta) -> Any:
    """Make a group from its members alone; torch's `new_group` needs every rank of the world."""
    old = plan.old
    made, _ = c10d._new_process_group_helper(
        len(ranks),
        ranks.index(old.rank),
        ranks,
        c10d.Backend(plan.backend),
        store,
        c10d.GroupName(f"{old.name}~{generation[old.name]}"),
        timeout=patience,
        group_desc=str(old.pg.group_desc),
    )
    c10d._world.pg_group_ranks[made] = {rank: place for place, rank in enumerate(ranks)}
    leaving.end(old.pg)
    return made
