"""Operations that ran out of time and are still under way: what must not be touched meanwhile.

Torch goes on reading and writing the tensors of such an operation, and the next operation on its
group lines up behind it. Whatever would mix with it is refused here, loudly.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from unstuck.dist.limits import ENGAGED, engage
from unstuck.errors import GroupBusyError, GroupGivenUpError, TensorInUseError

if TYPE_CHECKING:
    import torch

    from unstuck.dist.groups import Group
    from unstuck.dist.work import Call, TimedWork

_held: "list[TimedWork]" = []
_spoiled: "list[_Spoiled]" = []
_live: "weakref.WeakSet[TimedWork]" = weakref.WeakSet()
"""Handles that the program holds and may never wait for."""
_given_up: dict[str, Any] = {}
_announced: set[str] = set()
"""Groups that were given up since the default group was made, for the ranks that ask."""
_waiting: "dict[int, Call]" = {}
_lock = threading.RLock()


class _Spoiled:
    """A tensor in which an operation left something unknown, until the program fills it again."""

    def __init__(self, tensor: "torch.Tensor", words: str) -> None:
        self.tensor = weakref.ref(tensor)
        self.version = tensor._version
        self.words = words

    def still(self) -> "torch.Tensor | None":
        tensor = self.tensor()
        return tensor if tensor is not None and tensor._version == self.version else None


@contextlib.contextmanager
def waiting(call: "Call") -> Generator[None]:
    """Let the other ranks know what this thread waits in."""
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


def waits(thread: int) -> "Call | None":
    """Return the operation that a thread waits in."""
    return _waiting.get(thread)


def runs(group: str) -> "list[Call]":
    """Return the collectives of a group that are under way, waited for or not."""
    calls = {*_waiting.values(), *(work.call for work in unfinished(group))}
    return [call for call in calls if call.group.name == group and call.verb == "come"]


def hold(work: "TimedWork") -> None:
    """Guard the tensors and the group of an operation that is under way without a waiter."""
    with _lock:
        if work not in _held:
            _held.append(work)
            engage(1)


def release(work: "TimedWork") -> None:
    """End the guard: the operation was seen to end."""
    with _lock:
        if work in _held:
            _held.remove(work)
            engage(-1)


def track(work: "TimedWork") -> None:
    """Know of an operation that the program did not wait for so far."""
    _live.add(work)


def unfinished(group: str | None = None) -> "list[TimedWork]":
    """Return what is under way, of one group or of all."""
    with _lock:
        works = {*_held, *_live}
        return [w for w in works if group in (None, w.call.group.name) and not w.waiter.over()]


def check(group: "Group", tensors: "Iterable[torch.Tensor]", op: str) -> None:
    """Refuse an operation that would mix with one that is still under way."""
    with _lock:
        _look_again()
        if given_up(group):
            raise GroupGivenUpError(
                f"{op}: the group was given up",
                hint="unstuck.dist.rebuild() makes it new; unstuck.dist.leave() ends it",
            )
        for work in _held:
            if work.call.several and work.call.group.pg is group.pg:
                raise GroupBusyError(
                    f"{op}: {work.call.words()} is still under way on this group and consists of"
                    " several operations, which another one would mix with",
                    hint="wait for error.work, or error.give_up() and rebuild()",
                )
        _check_tensors(list(tensors), op)


def _check_tensors(tensors: "list[torch.Tensor]", op: str) -> None:
    for work in _held:
        if _overlap(work.call.tensors, tensors):
            raise TensorInUseError(
                f"{op}: the tensor still belongs to {work.call.words()}, which ran out of time but"
                " may complete",
                hint="wait for error.work, error.give_up(), or use copy=True from the start",
            )
    for spoiled in _spoiled:
        tensor = spoiled.still()
        if tensor is not None and _overlap([tensor], tensors):
            raise TensorInUseError(
                f"{op}: what the tensor holds is not known: {spoiled.words} ran out of time and"
                " wrote into it later, all or in part",
                hint="fill it again, or use copy=True from the start",
            )


def _look_again() -> None:
    """See which operations ended by themselves, and which tensors were filled again."""
    for work in [work for work in _held if work.waiter.over()]:
        release(work)
        if work.call.in_place:
            spoil(work)
    for spoiled in list(_spoiled):
        if spoiled.still() is None:
            _spoiled.remove(spoiled)
            engage(-1)


def spoil(work: "TimedWork") -> None:
    """Remember that nobody knows what the tensors of an abandoned reduction hold."""
    with _lock:
        for tensor in work.call.tensors:
            _spoiled.append(_Spoiled(tensor, work.call.words()))
            engage(1)


def changed_meanwhile(work: "TimedWork") -> TensorInUseError:
    """Make the error for a tensor that the program wrote while it belonged to an operation."""
    return TensorInUseError(
        f"the program wrote into a tensor while {work.call.words()} was still using it: what it"
        " holds now is not the result",
        hint="use copy=True, or leave the tensor alone until error.work.wait() returns",
    )


def give_up(group: "Group") -> None:
    """Remember that a group was given up; its reductions leave unknown contents behind."""
    with _lock:
        if group.name not in _given_up:
            engage(1)
        _given_up[group.name] = group.pg
        for work in [w for w in _held if w.call.group.pg is group.pg]:
            release(work)
            if work.call.in_place:
                spoil(work)


def given_up(group: "Group") -> bool:
    """Tell whether a group was given up; a new one may bear the same name."""
    return _given_up.get(group.name) is group.pg


def announce(name: str) -> None:
    """Remember that it was this rank that gave a group up."""
    _announced.add(name)


def announced(name: str) -> bool:
    """Tell whether this rank gave the group up, also when it was destroyed since."""
    return name in _announced


def any_given_up() -> bool:
    """Tell whether any group was given up and not yet destroyed."""
    return bool(_given_up)


def new_world() -> None:
    """Start over: group names of the default group before mean other groups now."""
    _announced.clear()


def forget(name: str) -> None:
    """Drop what is known of a group that is no more."""
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


def _overlap(one: "Iterable[torch.Tensor]", other: "Iterable[torch.Tensor]") -> bool:
    spans = [_span(tensor) for tensor in one]
    return any(
        start < end and begin < stop for begin, end in map(_span, other) for start, stop in spans
    )


def _span(tensor: "torch.Tensor") -> tuple[int, int]:
    """Return the memory that a tensor covers."""
    if tensor.is_sparse or tensor.numel() == 0:
        return 0, 0
    last = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    begin = tensor.data_ptr()
    return begin, begin + (last + 1) * tensor.element_size()
