"""What torch knows about a process group."""

from typing import Any

import pytest
import torch
from torch.distributed import distributed_c10d as c10d

from unstuck import dist
from unstuck.dist.base import groups


def test_none_means_the_default_group(world: Any) -> None:
    found = groups.resolve(None)
    assert found is not None
    assert (found.pg, found.name, found.ranks, found.rank) == (world, "0", (0,), 0)
    assert groups.of_name("0") == found
    assert groups.of_name("no such group") is None


def test_a_rank_that_is_not_a_member_has_no_group(world: Any) -> None:
    assert groups.resolve(c10d.GroupMember.NON_GROUP_MEMBER) is None


def test_what_is_not_a_group_is_refused(world: Any) -> None:
    with pytest.raises(TypeError, match=r"group must be a process group .* not str"):
        groups.resolve("world")
    destroyed = dist.new_group([0])
    dist.destroy_process_group(destroyed)
    with pytest.raises(ValueError, match="destroyed, or never created"):
        groups.resolve(destroyed)


def test_sends_do_not_count_as_collectives(world: Any) -> None:
    group = groups.describe(world)
    before = group.collectives()
    dist.all_reduce(torch.ones(1))
    assert group.collectives() == before + 1
    assert group.without_messages(9, 2) == 7


def test_the_backend_depends_on_the_device(world: Any) -> None:
    group = groups.describe(world)
    assert (group.backend("cpu"), group.backend("no such device")) == ("gloo", "")
    assert groups.only_gloo(world)
    assert not groups.only_gloo("world")


def test_a_coalescing_group_is_recognised(world: Any) -> None:
    group = groups.describe(world)
    assert not groups.coalescing(group)
    c10d._world.pg_coalesce_state[world] = []
    try:
        assert groups.coalescing(group)
        assert not groups.only_gloo(world)
    finally:
        del c10d._world.pg_coalesce_state[world]
