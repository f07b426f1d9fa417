"""Copies of a training's state in memory: where the survivors of a loss go on from."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d

_KEEP = 2
"""A loss in the middle of a copy leaves the one before."""


class Snapshots:
    """The latest copies of what `state_dict()` gives, each at the step that comes next."""

    def __init__(self) -> None:
        self._kept: dict[int, dict[str, Any]] = {}

    @property
    def newest(self) -> int:
        """The step that the newest copy goes on with; -1: there is none."""
        return max(self._kept, default=-1)

    def take(self, step: int, stateful: Mapping[str, Any]) -> None:
        """Copy the state of everything, to main memory."""
        self._kept[step] = {name: _copy(one.state_dict()) for name, one in stateful.items()}
        for old in sorted(self._kept)[:-_KEEP]:
            del self._kept[old]

    def agree(self, stateful: Mapping[str, Any]) -> int:
        """Bring all ranks of the world to the newest state that any of them has.

        Return the step to go on with; 0 and a first copy where nobody has one. Every rank of the
        default group calls it: the state must be the same in all ranks, as it is with DDP.
        """
        newest: list[int] = [0] * c10d.get_world_size()
        c10d.all_gather_object(newest, self.newest)
        step = max(newest)
        if step < 0:
            self.take(0, stateful)
            return 0
        if min(newest) < step:
            self._hand_over(step, newest.index(step))
        for name, one in stateful.items():
            one.load_state_dict(_copy(self._kept[step][name]))
        for later in [kept for kept in self._kept if kept > step]:
            del self._kept[later]
        return step

    def _hand_over(self, step: int, source: int) -> None:
        box: list[Any] = [self._kept.get(step)]
        c10d.broadcast_object_list(box, src=source)
        self._kept[step] = box[0]


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_copy(one) for one in value])
    return value
