"""Sends and receives with a `timeout=`, and the two functions that need a form of their own."""

import functools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d

from unstuck.dist import blame, calls, groups
from unstuck.dist.calls import ON_DEVICE, Function, begin, partners
from unstuck.dist.copies import private
from unstuck.dist.errors import CollectiveTimeout
from unstuck.dist.groups import SENT, Group
from unstuck.dist.limits import ENGAGED, NEVER, Limit, seconds_of
from unstuck.dist.operations import COLLECTIVES, SENDS_PER_OBJECT_LIST
from unstuck.dist.waiting import Polled, Threaded
from unstuck.dist.work import Call, TimedWork


def _count(group: Any, messages: int = 1) -> None:
    """Count messages of a group; torch itself says what is wrong with a group that is none."""
    pg = c10d.GroupMember.WORLD if group is None else group
    if isinstance(pg, c10d.ProcessGroup):
        name = pg.group_name
        SENT[name] = SENT.get(name, 0) + messages


def _issue(
    original: Function, op: str, group: Group, call: Call, given: dict[str, Any]
) -> TimedWork | None:
    """Post one message and return its handle."""
    receives = op in ("recv", "irecv")
    peer = (given.get("src"), given.get("group_src")) if receives else None
    peer = peer or (given.get("dst"), given.get("group_dst"))
    call.partners = partners(group, *peer)
    call.verb = "send" if receives else "receive"
    deliver = None
    if call.copied:
        given, deliver = private(given, ("tensor",) if receives else ())
    _count(group.pg)
    work = original(**given)
    if work is None:
        return None
    call.count()
    prepare = functools.partial(blame.prepare, call)
    on_device = group.backend(given["tensor"].device.type) in ON_DEVICE
    waiter = Polled(work, prepare) if on_device else Threaded(work.wait, prepare)
    return TimedWork(call, waiter, work, deliver)


def _posted(
    op: str, tensor: torch.Tensor, given: dict[str, Any], timeout: Limit | None, copy: bool
) -> Any:
    """Post a message with a limit; False when there is no limit after all."""
    original: Function = c10d.irecv if op in ("recv", "irecv") else c10d.isend
    group = groups.resolve(given.get("group"))
    if group is None:
        return False
    c10d._check_single_tensor(tensor, "tensor")
    call = begin(op, group, timeout, [tensor], copy)
    if call is None:
        return False
    if op in ("send", "recv"):
        _not_to_oneself(group, given, "destination" if op == "send" else "source")
    return _issue(original, op, group, call, {"tensor": tensor, **given})


def _not_to_oneself(group: Group, given: dict[str, Any], kind: str) -> None:
    names = ("dst", "group_dst") if kind == "destination" else ("src", "group_src")
    world, within = (given[name] for name in names)
    if world is not None or within is not None:
        rank = c10d._canonicalize_group_rank(group.pg, world, within)
        c10d._check_not_self_rank(group.pg, rank, kind)


def isend(
    tensor: torch.Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
    *,
    timeout: Limit | None = None,
    copy: bool = False,
) -> Any:
    """Post a send; with a `timeout`, the handle's `wait` raises when it takes longer."""
    if timeout is not None or ENGAGED[0]:
        given = {"dst": dst, "group": group, "tag": tag, "group_dst": group_dst}
        work = _posted("isend", tensor, given, timeout, copy)
        if work is not False:
            return work
    _count(group)
    return c10d.isend(tensor, dst, group, tag, group_dst)


def irecv(
    tensor: torch.Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
    *,
    timeout: Limit | None = None,
    copy: bool = False,
) -> Any:
    """Post a receive; with a `timeout`, the handle's `wait` raises when it takes longer."""
    if timeout is not None or ENGAGED[0]:
        given = {"src": src, "group": group, "tag": tag, "group_src": group_src}
        work = _posted("irecv", tensor, given, timeout, copy)
        if work is not False:
            return work
    _count(group)
    return c10d.irecv(tensor, src, group, tag, group_src)


def send(
    tensor: torch.Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
    *,
    timeout: Limit | None = None,
    copy: bool = False,
) -> None:
    """Send a tensor; with a `timeout`, raise when nobody receives it in time."""
    if timeout is not None or ENGAGED[0]:
        given = {"dst": dst, "group": group, "tag": tag, "group_dst": group_dst}
        work = _posted("send", tensor, given, timeout, copy)
        if work is not False:
            if work is not None:
                work.wait()
            return
    _count(group)
    c10d.send(tensor, dst, group, tag, group_dst)


def recv(
    tensor: torch.Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
    *,
    timeout: Limit | None = None,
    copy: bool = False,
) -> int:
    """Receive a tensor and return the sender; with a `timeout`, raise when none comes in time."""
    if timeout is not None or ENGAGED[0]:
        given = {"src": src, "group": group, "tag": tag, "group_src": group_src}
        work = _posted("recv", tensor, given, timeout, copy)
        if work is not False:
            return _source(work, src, group_src)
    _count(group)
    return int(c10d.recv(tensor, src, group, tag, group_src))


def _source(work: TimedWork | None, src: int | None, group_src: int | None) -> int:
    if work is None:
        return -1
    work.wait()
    if src is not None:
        return src
    ranks = work.call.group.ranks
    return ranks[work._source_rank() if group_src is None else group_src]


class P2POp(c10d.P2POp):
    """`torch.distributed.P2POp`, which also takes this package's `isend` and `irecv`."""

    def __new__(cls, op: Function, *args: Any, **kwargs: Any) -> Any:
        """Make one with torch's own function."""
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
    if group is None or (timeout is None and not ENGAGED[0]):
        _count(p2p_op_list[0].group, len(p2p_op_list))
        return c10d.batch_isend_irecv(p2p_op_list)
    posts = [_limited(each, group, timeout, copy) for each in p2p_op_list]
    if any(call is None for call, _ in posts) or group.backend("cuda") == "nccl":
        _count(group.pg, len(p2p_op_list))
        return c10d.batch_isend_irecv(p2p_op_list)
    works = [
        _issue(each.op, call.op, group, call, given)
        for each, (call, given) in zip(p2p_op_list, posts, strict=True)
        if call is not None
    ]
    return [work for work in works if work is not None]


def _limited(
    each: Any, group: Group, timeout: Limit | None, copy: bool
) -> tuple[Call | None, dict[str, Any]]:
    sends = each.op is c10d.isend
    peer = {"group_dst" if sends else "group_src": each.group_peer}
    given = {"tensor": each.tensor, "group": each.group, "tag": each.tag, **peer}
    return begin("isend" if sends else "irecv", group, timeout, [each.tensor], copy), given


def counted(function: Function, position: int) -> Function:
    """Count the messages of an object list, so that the group's numbers stay comparable."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        group = args[position] if len(args) > position else kwargs.get("group")
        _count(group, SENDS_PER_OBJECT_LIST)
        return function(*args, **kwargs)

    return call


_timed_barrier = calls.collective(next(op for op in COLLECTIVES if op.name == "barrier"))


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: Limit | None = None,
    copy: bool = False,
) -> Any:
    """Wait until every rank of the group is here; with a `timeout`, say who is not.

    Unlike torch's own, its timeout leaves the group alive. There is nothing to `copy`.

    Example:
        unstuck.dist.barrier(timeout=600)
    """
    if timeout is None and not ENGAGED[0]:
        return c10d.barrier(group, async_op, device_ids)
    given = {"group": group, "async_op": async_op, "device_ids": device_ids}
    return _timed_barrier((), given, timeout, copy)


def monitored_barrier(
    group: Any = None, timeout: Limit | None = None, wait_all_ranks: bool = False
) -> None:
    """Run torch's monitored barrier; its timeout becomes a `CollectiveTimeout`, the group dies.

    `barrier(timeout=...)` names the missing ranks in every rank and leaves the group alive.
    """
    limit = NEVER if timeout is None else seconds_of(timeout)
    resolved = groups.resolve(group)
    if resolved is None or (limit == NEVER and not ENGAGED[0]):
        c10d.monitored_barrier(group, None, wait_all_ranks)
        return
    call = begin("monitored_barrier", resolved, timeout, [], copy=False)
    given = None if call is None else timedelta(seconds=call.allowed)
    try:
        c10d.monitored_barrier(group, given, wait_all_ranks)
    except RuntimeError as error:
        if call is None:
            raise
        call.count()
        call.number += 1
        overdue = replace(blame.roll_call(call, call.allowed), dead=True)
        raise CollectiveTimeout(overdue) from error


def all_timed() -> dict[str, Callable[..., Any]]:
    """Return what has a form of its own here."""
    own = (isend, irecv, send, recv, P2POp, batch_isend_irecv, barrier, monitored_barrier)
    return {each.__name__: each for each in own}
