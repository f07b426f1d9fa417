"""The collectives of torch.distributed with a `timeout=`; without one, straight to torch."""

import functools
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import groups
from unstuck.dist.base.calls import Call
from unstuck.dist.base.groups import Group
from unstuck.dist.base.limits import ENGAGED, Limit, seconds_of
from unstuck.dist.base.waiting import Native, Polled, Threaded, Waiter, soon
from unstuck.dist.missing import blame, rollcall
from unstuck.dist.timed.copies import private, tensors_of
from unstuck.dist.timed.operations import COLLECTIVES, OBJECTS, Operation
from unstuck.dist.timed.work import TimedWork
from unstuck.dist.timed.wrapping import (
    ON_DEVICE,
    Function,
    Timed,
    address,
    begin,
    names_of,
    torch_function,
    with_names,
    wrapped,
)

_MUCH = 0.5
"""Seconds. With less, everything that a timeout needs is prepared before the call."""
_FUTURE = (torch.futures.Future, torch._C.Future)


def collective(operation: Operation) -> Timed:
    """Make the timed form of a collective: issue it, then wait with a limit."""
    original = torch_function(operation)
    names = names_of(original)
    group_at = names.index("group")

    def timed(args: Any, kwargs: Any, timeout: Limit | None, copy: bool) -> Any:
        # No unfinished operation, no open deadline: only this operation has to be watched.
        alone = not (ENGAGED[0] or copy or operation.deaf or "async_op" in kwargs)
        if alone and timeout is not None and len(args) <= group_at:
            allowed = seconds_of(timeout)
            pg = kwargs.get("group") or c10d.group.WORLD
            if allowed >= _MUCH and rollcall.current() and groups.only_gloo(pg):
                return _in_time(operation, names, args, kwargs, pg, allowed)
        given = with_names(operation.name, names, args, kwargs)
        group = groups.resolve(given.get("group"))
        if group is None:
            return original(*args, **kwargs)
        tensors = [t for value in given.values() for t in tensors_of(value)]
        call = begin(operation.name, group, timeout, tensors, copy)
        if call is None or _coalesced(group, timeout):
            return original(*args, **kwargs)
        call.in_place = operation.in_place
        deliver = None
        issued = given
        if call.copied:
            issued, deliver = private(given, _received(operation, given, group))
        work = original(**{**issued, "async_op": True})
        call.count()
        own = TimedWork(call, _waiter(operation, work, call, tensors), work, deliver)
        if given.get("async_op", False):
            return own
        own.wait()
        return None

    return timed


def _in_time(
    operation: Operation,
    names: tuple[str, ...],
    args: Any,
    kwargs: dict[str, Any],
    pg: Any,
    allowed: float,
) -> None:
    """Issue an operation and wait; what a timeout needs is only prepared when it takes long."""
    began = time.monotonic()
    work = getattr(c10d, operation.name)(*args, **kwargs, async_op=True)
    issued = pg._get_sequence_number_for_group()

    def own() -> TimedWork:
        group = groups.describe(pg)
        in_place = operation.in_place
        call = Call(operation.name, group, allowed, began + allowed, began, in_place=in_place)
        call.number, call.messages = issued, groups.SENT.get(group.name, 0)
        given = with_names(operation.name, names, args, kwargs)
        call.tensors = [t for value in given.values() for t in tensors_of(value)]
        return TimedWork(call, _gloo_waiter(work, call), work, None)

    try:
        if not isinstance(work, _FUTURE) and soon(work):
            return
    except BaseException as error:
        own().failed(error)
        raise
    own().wait()


def _coalesced(group: Group, timeout: Limit | None) -> bool:
    if not groups.coalescing(group):
        return False
    if timeout is not None:
        raise ValueError("timeout cannot be given to operations that are being coalesced")
    return True


def _received(operation: Operation, given: dict[str, Any], group: Group) -> tuple[str, ...]:
    """Return the arguments in which this rank receives something."""
    if operation.root is None:
        return operation.outputs
    root, group_root = (given.get(name) for name in operation.root)
    if group_root is None:
        group_root = c10d.get_group_rank(group.pg, root or 0)
    is_root = group.pg.rank() == group_root
    return operation.outputs if is_root == (operation.writes == "root") else ()


def _waiter(operation: Operation, work: Any, call: Call, tensors: list[torch.Tensor]) -> Waiter:
    if tensors:
        device = tensors[0].device.type
    else:  # a barrier
        device = str(torch.device(c10d._get_object_coll_device(call.group.pg)).type)
    backend = call.group.backend(device)
    if isinstance(work, _FUTURE) or (backend == "gloo" and not operation.deaf):
        return _gloo_waiter(work, call)
    prepare = functools.partial(blame.prepare, call)
    return Polled(work, prepare) if backend in ON_DEVICE else Threaded(work.wait, prepare)


def _gloo_waiter(work: Any, call: Call) -> Waiter:
    """Wait in torch if that takes a limit, which the future of `all_reduce_coalesced` does not."""
    prepare = functools.partial(blame.prepare, call)
    return Polled(work, prepare, work.done) if isinstance(work, _FUTURE) else Native(work, prepare)


def objects(operation: Operation) -> Timed:
    """Make the timed form of an object collective: torch's own, in a helper thread."""
    original = torch_function(operation)
    names = names_of(original)

    def timed(args: Any, kwargs: Any, timeout: Limit | None, copy: bool) -> Any:
        given = with_names(operation.name, names, args, kwargs)
        group = groups.resolve(given.get("group"))
        call = begin(operation.name, group, timeout, [], copy) if group is not None else None
        if call is None:
            return original(*args, **kwargs)
        call.composite = True
        run, deliver = _private_lists(original, given, operation.outputs)
        call.count()
        call.number += 1
        address(call, operation, given)
        waiter = Threaded(run, functools.partial(blame.prepare, call))
        TimedWork(call, waiter, None, deliver).wait()
        return waiter.result

    return timed


def _private_lists(
    original: Function, given: dict[str, Any], outputs: tuple[str, ...]
) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Let the thread fill lists of its own, which are copied to the caller's only on success."""
    lists = {name: given[name] for name in outputs if isinstance(given.get(name), list)}
    own = {name: list(value) for name, value in lists.items()}

    def deliver() -> None:
        for name, value in lists.items():
            value[:] = own[name]

    return functools.partial(original, **{**given, **own}), deliver


def all_timed() -> dict[str, Function]:
    """Make all collectives and object collectives that this torch has."""
    makers = [*((op, collective) for op in COLLECTIVES), *((op, objects) for op in OBJECTS)]
    return {op.name: wrapped(op, make(op)) for op, make in makers if hasattr(c10d, op.name)}
