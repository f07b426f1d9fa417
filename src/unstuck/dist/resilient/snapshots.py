"""Copies of the training state in memory, from which the survivors of a loss continue."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d

_KEEP = 2
"""A loss in the middle of a copy leaves the previous one."""


class Snapshots:
    """The latest copies of what `state_dict()` returns, by the step that comes next."""

    def __init__(self) -> None:
        self._kept: dict[int, dict[str, Any]] = {}

    @property
    def newest(self) -> int:
        """The step with which the newest copy continues; -1: there is none."""
        return max(self._kept, default=-1)

    def take(self, step: int, stateful: Mapping[str, Any]) -> None:
        """Copy the state of everything to main memory."""
        self._kept[step] = {name: _copy(one.state_dict()) for name, one in stateful.items()}
        for old in sorted(self._kept)[:-_KEEP]:
            del self._kept[old]

    def agree(self, stateful: Mapping[str, Any]) -> int:
        """Bring all ranks of the world to the newest state that any of them has.

        Return the step to continue with; where no rank has a copy, take a first one and return 0.
        Every rank of the default group calls this: as with DDP, their state must be the same.
        """
        newest: list[int] = [0] * c10d.get_world_size()
        c10d.all_gather_object(newest, self.newest)
        step = max(newest)
        if step < 0:
            self.take(0, stateful)
            return 0
        if min(newest) < step:
            box: list[Any] = [self._kept.get(step)]
            c10d.broadcast_object_list(box, src=newest.index(step))
            self._kept[step] = box[0]
        for name, one in stateful.items():
            one.load_state_dict(_copy(self._kept[step][name]))
        return step


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_copy(one) for one in value])
    return value
