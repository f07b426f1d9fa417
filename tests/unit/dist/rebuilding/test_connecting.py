"""A group is made again the way it was made before."""

import sys
import time
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed
from torch._C._distributed_c10d import HashStore
from torch.distributed import distributed_c10d as c10d

from unstuck import dist
from unstuck.dist.rebuilding import connecting
from unstuck.errors import UserError


def connect(plan: connecting.Plan) -> Any:
    return connecting.connect(plan, [0], HashStore(), time.monotonic() + 20)


def test_the_default_group_keeps_its_backend_and_timeout(world: Any) -> None:
    plan = connecting.plan_of(None)
    assert (plan.whole, plan.backend, plan.timeout) == (True, "gloo", timedelta(seconds=60))
    made = connect(plan)
    assert made is torch.distributed.group.WORLD
    assert made is not world
    assert connecting.plan_of(None).timeout == timedelta(seconds=60)
    assert connecting.plan_of(None).base is plan.base, "later ones meet in the first store"


def test_a_sub_group_replaces_the_old_one(world: Any) -> None:
    old = dist.new_group([0], timeout=timedelta(seconds=7))
    plan = connecting.plan_of(old)
    connecting.generation[plan.old.name] = 1
    made = connect(plan)
    assert made.group_name == f"{plan.old.name}~1"
    assert old not in c10d._world.pg_map
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=made, timeout=20)
    assert connecting.plan_of(made).timeout == timedelta(seconds=7)


def test_a_failed_default_group_can_be_tried_again(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = connecting.plan_of(None)
    with monkeypatch.context() as patched:
        patched.setattr(c10d, "init_process_group", refuse)
        with pytest.raises(dist.RebuildError, match="could not connect: refused"):
            connect(plan)
    assert connecting.plan_of(None) == plan
    connect(plan)
    assert connecting.plan_of(None) != plan


def refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("refused")


def test_giving_up_the_default_group_gives_up_all(world: Any) -> None:
    plan = connecting.plan_of(None)
    connecting.give_up(plan)
    with pytest.raises(dist.GroupGivenUpError, match="all_reduce: the group was given up"):
        dist.all_reduce(torch.ones(1), timeout=1)


def test_other_ranks_groups_cannot_be_rebuilt(world: Any) -> None:
    with pytest.raises(UserError, match="not a member"):
        connecting.plan_of(c10d.GroupMember.NON_GROUP_MEMBER)


def test_traceback_prefixes_do_not_pile_up(world: Any) -> None:
    for _ in range(2):
        connect(connecting.plan_of(None))
    hooks = 0
    hook: Any = sys.excepthook
    while getattr(hook, "__name__", "") == "_distributed_excepthook":
        hooks += 1
        cells = zip(hook.__code__.co_freevars, hook.__closure__, strict=True)
        hook = dict(cells)["old_hook"].cell_contents
    assert hooks == 1
