"""Operations that timed out but are still running: what must not be touched in the meantime.

Torch keeps reading and writing the tensors of such an operation, and the next operation on its
group queues behind it. Whatever would interfere with it is refused here with an error.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Generator, Iterable
from typing import Any

import torch

from unstuck.dist.base.calls import Call, Handle
from unstuck.dist.base.groups import Group
from unstuck.dist.base.limits import ENGAGED, engage
from unstuck.errors import GroupBusyError, GroupGivenUpError, TensorInUseError

_held: list[Handle] = []
_spoiled: "list[_Spoiled]" = []
_live: "weakref.WeakSet[Handle]" = weakref.WeakSet()
"""Handles that the program holds and may never wait for."""
_given_up: dict[str, Any] = {}
_announced: set[str] = set()
"""Groups this rank gave up since the default group was created, for ranks that ask."""
_waiting: dict[int, Call] = {}
_lock = threading.RLock()


class _Spoiled:
    """A tensor with undefined contents after an operation, until the program fills it again."""

    def __init__(self, tensor: torch.Tensor, label: str) -> None:
        self.tensor = weakref.ref(tensor)
        self.version = tensor._version
        self.label = label

    def still(self) -> torch.Tensor | None:
        tensor = self.tensor()
        return tensor if tensor is not None and tensor._version == self.version else None


@contextlib.contextmanager
def waiting(call: Call) -> Generator[None]:
    """Let the other ranks know which operation this thread is waiting in."""
    thread = threading.get_ident()
    before = _waiting.get(thread)
    _waiting[thread] = call
    try:
        yield
    finally:
        if before is None:
            _waiting.pop(thread, None)
        else:
            _waiting[thread] = before


def waits(thread: int) -> Call | None:
    """Return the operation that a thread is waiting in."""
    return _waiting.get(thread)


def runs(group: str) -> list[Call]:
    """Return the unfinished collectives of a group, whether anybody waits for them or not."""
    calls = {*_waiting.values(), *(work.call for work in unfinished(group))}
    return [call for call in calls if call.group.name == group and call.verb == "arrive"]


def hold(work: Handle) -> None:
    """Guard the tensors and the group of an unfinished operation that nobody waits for."""
    with _lock:
        if work not in _held:
            _held.append(work)
            engage(1)


def release(work: Handle, *, abandoned: bool = False) -> None:
    """Stop guarding an operation; an abandoned reduction leaves its tensors undefined."""
    with _lock:
        if work in _held:
            _held.remove(work)
            engage(-1)
        if abandoned and work.call.in_place:
            for tensor in work.call.tensors:
                _spoiled.append(_Spoiled(tensor, work.call.label()))
                engage(1)


def track(work: Handle) -> None:
    """Register an operation that the program has not waited for yet."""
    _live.add(work)


def unfinished(group: str | None = None) -> list[Handle]:
    """Return the unfinished operations, of one group or of all."""
    with _lock:
        works = {*_held, *_live}
        return [w for w in works if group in (None, w.call.group.name) and not w.waiter.over()]


def check(group: Group, tensors: Iterable[torch.Tensor], op: str) -> None:
    """Refuse an operation that would interfere with an unfinished one."""
    with _lock:
        _refresh()
        if given_up(group):
            raise GroupGivenUpError(
                f"{op}: the group was given up",
                hint="unstuck.dist.rebuild() makes a new one; unstuck.dist.leave() ends it",
            )
        for work in _held:
            if work.call.composite and work.call.group.pg is group.pg:
                raise GroupBusyError(
                    f"{op}: {work.call.label()} is still running on this group and consists of"
                    " several operations, which this one would interfere with",
                    hint="wait for error.work, or error.give_up() and rebuild()",
                )
        _check_tensors(list(tensors), op)


def _check_tensors(tensors: list[torch.Tensor], op: str) -> None:
    for work in _held:
        if _overlap(work.call.tensors, tensors):
            raise TensorInUseError(
                f"{op}: the tensor is still in use by {work.call.label()}, which timed out but may"
                " complete",
                hint="wait for error.work, error.give_up(), or use copy=True from the start",
            )
    for spoiled in _spoiled:
        tensor = spoiled.still()
        if tensor is not None and _overlap([tensor], tensors):
            raise TensorInUseError(
                f"{op}: the contents of the tensor are undefined: {spoiled.label} timed out and"
                " later overwrote all or part of it",
                hint="fill it again, or use copy=True from the start",
            )


def _refresh() -> None:
    """Drop operations that have ended in the meantime and tensors that were filled again."""
    for work in [work for work in _held if work.waiter.over()]:
        release(work, abandoned=True)
    for spoiled in list(_spoiled):
        if spoiled.still() is None:
            _spoiled.remove(spoiled)
            engage(-1)


def give_up(group: Group) -> None:
    """Remember that a group was given up; its reductions leave their tensors undefined."""
    with _lock:
        if group.name not in _given_up:
            engage(1)
        _given_up[group.name] = group.pg
        for work in [w for w in _held if w.call.group.pg is group.pg]:
            release(work, abandoned=True)


def given_up(group: Group) -> bool:
    """Tell whether a group was given up; a new one may have the same name."""
    return _given_up.get(group.name) is group.pg


def announce(name: str) -> None:
    """Remember that it was this rank that gave up a group."""
    _announced.add(name)


def announced(name: str) -> bool:
    """Tell whether this rank gave up the group, even if it has been destroyed since."""
    return name in _announced


def any_given_up() -> bool:
    """Tell whether any group was given up and not yet destroyed."""
    return bool(_given_up)


def new_world() -> None:
    """Start over: with a new default group, group names refer to other groups."""
    _announced.clear()


def forget(name: str) -> None:
    """Forget a group that no longer exists."""
    with _lock:
        if _given_up.pop(name, None) is not None:
            engage(-1)
        for work in [w for w in _held if w.call.group.name == name]:
            release(work)


def _after_fork() -> None:
    """Forget in a forked child what only its parent waits for."""
    for kept in (_held, _spoiled, _live, _given_up, _waiting, _announced):
        kept.clear()
    ENGAGED[0] = 0


os.register_at_fork(after_in_child=_after_fork)


def _overlap(one: Iterable[torch.Tensor], other: Iterable[torch.Tensor]) -> bool:
    spans = [_span(tensor) for tensor in one]
    return any(
        start < end and begin < stop for begin, end in map(_span, other) for start, stop in spans
    )


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the range of memory that a tensor covers."""
    if tensor.is_sparse or tensor.numel() == 0:
        return 0, 0
    last = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    begin = tensor.data_ptr()
    return begin, begin + (last + 1) * tensor.element_size()
