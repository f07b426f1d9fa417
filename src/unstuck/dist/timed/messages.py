"""Sends and receives with a `timeout=`, and the two barriers."""

import functools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import groups
from unstuck.dist.base.calls import Call
from unstuck.dist.base.errors import CollectiveTimeout
from unstuck.dist.base.groups import Group
from unstuck.dist.base.limits import ENGAGED, Limit
from unstuck.dist.base.waiting import Polled, Threaded
from unstuck.dist.missing import blame
from unstuck.dist.timed.collectives import collective
from unstuck.dist.timed.copies import private
from unstuck.dist.timed.operations import BARRIER, IRECV, ISEND, RECV, SEND, Operation
from unstuck.dist.timed.work import TimedWork
from unstuck.dist.timed.wrapping import (
    ON_DEVICE,
    Function,
    Timed,
    address,
    begin,
    count_messages,
    names_of,
    torch_function,
    with_names,
    wrapped,
)

_isend, _irecv = torch_function(ISEND), torch_function(IRECV)


def message(operation: Operation) -> Timed:
    """Make the timed form of a send or receive: post it, then wait with a limit."""
    original = torch_function(operation)
    names = names_of(original)
    blocking = operation in (SEND, RECV)

    def timed(args: Any, kwargs: Any, timeout: Limit | None, copy: bool) -> Any:
        given = with_names(operation.name, names, args, kwargs)
        group = groups.resolve(given.get("group"))
        if group is None:
            return original(*args, **kwargs)
        tensor: Any = given.get("tensor")
        c10d._check_single_tensor(tensor, "tensor")
        call = begin(operation.name, group, timeout, [tensor], copy)
        if call is None:
            return original(*args, **kwargs)
        if not blocking:
            return _post(operation, call, given)
        _check_not_self(operation, group, given)
        work = _post(operation, call, given)
        work.wait()
        return None if operation.sends else _source(work, call)

    return timed


def _post(operation: Operation, call: Call, given: dict[str, Any]) -> TimedWork:
    """Post one message and return its handle."""
    address(call, operation, given)
    deliver = None
    if call.copied:
        given, deliver = private(given, operation.outputs)
    work = (_isend if operation.sends else _irecv)(**given)
    call.count()
    prepare = functools.partial(blame.prepare, call)
    on_device = call.group.backend(given["tensor"].device.type) in ON_DEVICE
    waiter = Polled(work, prepare) if on_device else Threaded(work.wait, prepare)
    return TimedWork(call, waiter, work, deliver)


def _check_not_self(operation: Operation, group: Group, given: dict[str, Any]) -> None:
    """Refuse a message to this rank itself, as torch's `send` and `recv` do."""
    world, within = (given.get(name) for name in operation.partner or ())
    if world is not None or within is not None:
        rank = c10d._canonicalize_group_rank(group.pg, world, within)
        kind = "destination" if operation.sends else "source"
        c10d._check_not_self_rank(group.pg, rank, kind)


def _source(work: TimedWork, call: Call) -> int:
    partners = call.partners or ()
    return partners[0] if len(partners) == 1 else call.group.ranks[work._source_rank()]


isend, irecv, send, recv = (wrapped(op, message(op)) for op in (ISEND, IRECV, SEND, RECV))


class P2POp(c10d.P2POp):
    """`torch.distributed.P2POp` that also accepts this package's `isend` and `irecv`."""

    def __new__(cls, op: Function, *args: Any, **kwargs: Any) -> Any:
        """Create one with torch's own function."""
        return super().__new__(cls, _torchs(op), *args, **kwargs)

    def __init__(self, op: Function, *args: Any, **kwargs: Any) -> None:
        super().__init__(_torchs(op), *args, **kwargs)


def _torchs(op: Function) -> Function:
    return {isend: c10d.isend, irecv: c10d.irecv}.get(op, op)


def batch_isend_irecv(
    p2p_op_list: list[Any], *, timeout: Limit | None = None, copy: bool = False
) -> list[Any]:
    """Post several sends and receives; with a `timeout`, each handle's `wait` has that limit."""
    c10d._check_p2p_op_list(p2p_op_list)
    group = groups.resolve(p2p_op_list[0].group)
    posts: list[tuple[Operation, Call, dict[str, Any]]] = []
    if group is not None and (timeout is not None or ENGAGED[0]):
        for each in p2p_op_list:
            operation = ISEND if each.op is c10d.isend else IRECV
            call = begin(operation.name, group, timeout, [each.tensor], copy)
            if call is None:
                break
            peer = {"group_dst" if operation.sends else "group_src": each.group_peer}
            given = {"tensor": each.tensor, "group": each.group, "tag": each.tag, **peer}
            posts.append((operation, call, given))
    if not posts or (group is not None and group.backend("cuda") == "nccl"):
        count_messages(p2p_op_list[0].group, len(p2p_op_list))
        return c10d.batch_isend_irecv(p2p_op_list)
    return [_post(*post) for post in posts]


_timed_barrier = collective(BARRIER)


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: Limit | None = None,
    copy: bool = False,
) -> Any:
    """Wait until every rank of the group is here; with a `timeout`, say which ranks are not.

    Unlike torch's own, its timeout leaves the group usable. There is nothing to `copy`.

    Example:
        unstuck.dist.barrier(timeout=600)
    """
    given: dict[str, Any] = {"group": group, "async_op": async_op, "device_ids": device_ids}
    if timeout is None and not ENGAGED[0]:
        return c10d.barrier(**given)
    return _timed_barrier((), given, timeout, copy)


def monitored_barrier(
    group: Any = None, timeout: Limit | None = None, wait_all_ranks: bool = False
) -> None:
    """Run torch's monitored barrier; its timeout ends the group and raises `CollectiveTimeout`.

    `barrier(timeout=...)` names the missing ranks on every rank and leaves the group usable.
    """
    resolved = groups.resolve(group)
    call = None
    if resolved is not None and (timeout is not None or ENGAGED[0]):
        call = begin("monitored_barrier", resolved, timeout, [], copy=False)
    if call is None:
        c10d.monitored_barrier(group, None, wait_all_ranks)
        return
    try:
        c10d.monitored_barrier(group, timedelta(seconds=call.allowed), wait_all_ranks)
    except RuntimeError as error:
        call.count()
        call.number += 1
        overdue = replace(blame.roll_call(call, call.allowed), dead=True)
        raise CollectiveTimeout(overdue) from error


def all_timed() -> dict[str, Callable[..., Any]]:
    """Return what has a form of its own here."""
    own = (isend, irecv, send, recv, P2POp, batch_isend_irecv, barrier, monitored_barrier)
    return {each.__name__: each for each in own}
