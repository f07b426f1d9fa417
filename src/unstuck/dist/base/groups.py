"""What torch knows about a process group."""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.distributed import distributed_c10d as c10d

SENT: dict[str, int] = {}
"""Sends and receives issued through `unstuck.dist` per group: with gloo, torch counts them among
the group's operations, although their number differs from rank to rank."""


@dataclass(frozen=True)
class Group:
    """A process group this rank belongs to."""

    pg: Any
    name: str
    ranks: tuple[int, ...]
    rank: int
    """This process's global rank, not its rank within the group."""

    def issued(self) -> int:
        """Return torch's count of the operations this rank issued on the group; 0: unknown."""
        try:
            return int(self.pg._get_sequence_number_for_group())
        except RuntimeError:
            return 0  # the backend does not count

    def collectives(self) -> int:
        """Return how many of them were collectives, which is comparable between members."""
        return self.without_messages(self.issued(), SENT.get(self.name, 0))

    def without_messages(self, issued: int, messages: int) -> int:
        """Subtract sends and receives from torch's count where it includes them."""
        return issued - messages if self.backend("cpu") == "gloo" else issued

    def backend(self, device: str) -> str:
        """Return the name of the backend for a device type; empty: there is none."""
        try:
            return str(self.pg._get_backend(torch.device(device)).name())
        except (RuntimeError, ValueError):
            return ""


def resolve(group: Any) -> Group | None:
    """Return the group that an argument refers to; None: this rank is not a member."""
    if isinstance(group, int) and group == c10d.GroupMember.NON_GROUP_MEMBER:
        return None
    if group is not None and not isinstance(group, c10d.ProcessGroup):
        kind = type(group).__name__
        raise TypeError(f"group must be a process group or None (the default group), not {kind}")
    pg = c10d._get_default_group() if group is None else group
    if pg not in c10d._world.pg_map:
        raise ValueError("group is unknown to torch.distributed: destroyed, or never created")
    return describe(pg)


def describe(pg: Any) -> Group:
    """Look up the name and members of a process group."""
    ranks = tuple(c10d._world.pg_group_ranks.get(pg, {})) or tuple(range(pg.size()))
    return Group(pg, str(pg.group_name), ranks, ranks[pg.rank()])


_only_gloo: "WeakKeyDictionary[Any, bool]" = WeakKeyDictionary()


def only_gloo(pg: Any) -> bool:
    """Tell cheaply whether a group uses gloo on every device and is not coalescing."""
    world = c10d._world
    if not isinstance(pg, c10d.ProcessGroup) or pg not in world.pg_map:
        return False
    if pg in world.pg_coalesce_state:
        return False
    known = _only_gloo.get(pg)
    if known is None:
        served = {describe(pg).backend(device.type) for device in pg._device_types}
        known = _only_gloo[pg] = served == {"gloo"}
    return known


def of_name(name: str) -> Group | None:
    """Find one of this rank's groups by name."""
    for pg, known in list(c10d._world.pg_names.items()):
        if str(known) == name:
            return describe(pg)
    return None


def coalescing(group: Group) -> bool:
    """Tell whether operations on the group are being coalesced into one."""
    return group.pg in c10d._world.pg_coalesce_state
