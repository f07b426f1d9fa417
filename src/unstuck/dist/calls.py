"""The functions of torch.distributed with a `timeout=`; without one, straight to torch."""

import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d

from unstuck.dist import blame, groups, held, leaving, limits, rollcall
from unstuck.dist.copies import private, tensors_of
from unstuck.dist.errors import CollectiveTimeout, Overdue
from unstuck.dist.groups import Group
from unstuck.dist.limits import ENGAGED, NEVER, Limit, seconds_of
from unstuck.dist.operations import COLLECTIVES, OBJECTS, Operation
from unstuck.dist.waiting import Native, Polled, Threaded, Waiter, soon
from unstuck.dist.work import Call, TimedWork

Function = Callable[..., Any]
_MUCH = 0.5
"""Seconds: with less, everything that a timeout needs is made beforehand."""
_FUTURE = (torch.futures.Future, torch._C.Future)
ON_DEVICE = ("nccl", "xccl")
"""Backends whose `wait` returns while the device is still at it."""
_NOTE = """

    With unstuck.dist also:
        timeout (float or timedelta, optional): seconds after which a rank that waits gets
            `CollectiveTimeout`, which names the ranks that did not come. The group lives on.
        copy (bool, optional): work on private copies, so that a timeout leaves the tensors
            as they were. Without it they belong to the operation until it ends.
"""


def wrapped(operation: Operation, timed: Function) -> Function:
    """Give a function of torch its `timeout=` and `copy=`."""
    original: Function = getattr(c10d, operation.name)
    engaged = ENGAGED

    @functools.wraps(original)
    def call(*args: Any, timeout: Limit | None = None, copy: bool = False, **kwargs: Any) -> Any:
        if timeout is None and not engaged[0]:
            return original(*args, **kwargs)
        return timed(args, kwargs, timeout, copy)

    return _described(call, original)


def _described(call: Function, original: Function) -> Function:
    signature = inspect.signature(original)
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in (("timeout", None), ("copy", False))
        if name not in signature.parameters
    ]
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *extra]
    )
    call.__doc__ = (original.__doc__ or "").rstrip() + _NOTE
    return call


def collective(operation: Operation) -> Function:
    """Make the timed form of a collective: issue it, then wait with a limit."""
    original: Function = getattr(c10d, operation.name)
    names = tuple(inspect.signature(original).parameters)
    at = names.index("group")

    def timed(args: Any, kwargs: Any, timeout: Limit | None, copy: bool) -> Any:
        # Nothing is held, no deadline is open: what has to be watched is this operation alone.
        alone = not (ENGAGED[0] or copy or operation.deaf or "async_op" in kwargs)
        if alone and timeout is not None and len(args) <= at:
            allowed, world = seconds_of(timeout), c10d.group.WORLD
            pg = kwargs.get("group") or world
            if allowed >= _MUCH and rollcall.current(world) and groups.only_gloo(pg):
                return _in_time(operation, names, args, kwargs, pg, allowed)
        given = _given(operation.name, names, args, kwargs)
        group = groups.resolve(given.get("group"))
        if group is None:
            return original(*args, **kwargs)
        tensors = [t for value in given.values() for t in tensors_of(value)]
        call = begin(operation.name, group, timeout, tensors, copy)
        if call is None or _coalesced(group, timeout):
            return original(*args, **kwargs)
        call.in_place = operation.in_place
        deliver = None
        issued = dict(given)
        if call.copied:
            issued, deliver = private(issued, _received(operation, given, group))
        wanted = bool(given.get("async_op", False))
        issued["async_op"] = True
        work = original(**issued)
        if work is None:
            return None
        call.count()
        waiter = _waiter(operation, work, call, tensors)
        own = TimedWork(call, waiter, work, deliver)
        return own if wanted else _done(own)

    return timed


def _in_time(
    operation: Operation,
    names: tuple[str, ...],
    args: Any,
    kwargs: dict[str, Any],
    pg: Any,
    allowed: float,
) -> None:
    """Issue an operation and wait for it; what a timeout needs is made once it takes long."""
    began = time.monotonic()
    work = getattr(c10d, operation.name)(*args, **kwargs, async_op=True)
    if work is None:
        return
    issued = pg._get_sequence_number_for_group()

    def own() -> TimedWork:
        group = groups.describe(pg)
        in_place = operation.in_place
        call = Call(operation.name, group, allowed, began + allowed, began, in_place=in_place)
        call.number, call.messages = issued, groups.SENT.get(group.name, 0)
        given = _given(operation.name, names, args, kwargs)
        call.tensors = [t for value in given.values() for t in tensors_of(value)]
        waiter = _of_gloo(work, functools.partial(blame.prepare, call))
        return TimedWork(call, waiter, work, None)

    try:
        if not isinstance(work, _FUTURE) and soon(work):
            return
    except BaseException as error:
        own().failed(error)
        raise
    own().wait()


def _given(op: str, names: tuple[str, ...], args: Any, kwargs: Any) -> dict[str, Any]:
    """Name the arguments; what is missing or unknown is torch's to refuse."""
    if len(args) > len(names):
        raise TypeError(f"{op}() takes {len(names)} arguments but {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    twice = given.keys() & kwargs.keys()
    if twice:
        raise TypeError(f"{op}() got multiple values for argument {min(twice)!r}")
    return given | kwargs


def _done(work: TimedWork) -> None:
    work.wait()


def _coalesced(group: Group, timeout: Limit | None) -> bool:
    if not groups.coalescing(group):
        return False
    if timeout is not None:
        raise ValueError("timeout cannot be given to operations that are being coalesced")
    return True


def _received(operation: Operation, given: dict[str, Any], group: Group) -> tuple[str, ...]:
    """Return the arguments that this rank receives something in."""
    if operation.root is None or operation.writes == "all":
        return operation.outputs
    root, group_root = (given.get(name) for name in operation.root)
    if group_root is None:
        group_root = c10d.get_group_rank(group.pg, root or 0)
    is_root = group.pg.rank() == group_root
    return operation.outputs if is_root == (operation.writes == "root") else ()


def begin(
    op: str, group: Group, timeout: Limit | None, tensors: list[torch.Tensor], copy: bool
) -> Call | None:
    """Check an operation and give it its limit; None when it has none."""
    allowed = NEVER if timeout is None else seconds_of(timeout)
    now = time.monotonic()
    until = min(now + allowed, limits.end())
    copy = copy or limits.copies()
    held.check(group, tensors, op)
    if until == NEVER:
        return None
    if c10d.is_initialized():
        default = c10d._get_default_group()
        if rollcall.current(default) is None:
            leaving.take_part(default, c10d._get_default_store())
    call = Call(op, group, until - now, until, now, copied=copy and bool(tensors))
    if not call.copied:
        call.tensors = tensors
    if until <= now:
        raise CollectiveTimeout(_not_started(call))
    return call


def _not_started(call: Call) -> Overdue:
    group = call.group
    return Overdue(call.op, 0, group.name, group.ranks, group.rank, 0.0, 0.0, started=False)


def _waiter(operation: Operation, work: Any, call: Call, tensors: list[torch.Tensor]) -> Waiter:
    device = tensors[0].device.type if tensors else _barrier_device(call.group)
    prepare = functools.partial(blame.prepare, call)
    backend = call.group.backend(device)
    if isinstance(work, _FUTURE) or (backend == "gloo" and not operation.deaf):
        return _of_gloo(work, prepare)
    return Polled(work, prepare) if backend in ON_DEVICE else Threaded(work.wait, prepare)


def _of_gloo(work: Any, prepare: Callable[[], None]) -> Waiter:
    """Wait in torch where it takes a limit, which the future of `all_reduce_coalesced` does not."""
    return Polled(work, prepare, work.done) if isinstance(work, _FUTURE) else Native(work, prepare)


def _barrier_device(group: Group) -> str:
    return str(torch.device(c10d._get_object_coll_device(group.pg)).type)


def objects(operation: Operation) -> Function:
    """Make the timed form of an object collective: torch's own, in a helper thread."""
    original: Function = getattr(c10d, operation.name)
    names = tuple(inspect.signature(original).parameters)

    def timed(args: Any, kwargs: Any, timeout: Limit | None, copy: bool) -> Any:
        given = _given(operation.name, names, args, kwargs)
        group = groups.resolve(given.get("group"))
        if group is None:
            return original(*args, **kwargs)
        call = begin(operation.name, group, timeout, [], copy)
        if call is None:
            return original(*args, **kwargs)
        call.several = True
        run, deliver = _private_lists(original, given, operation.outputs)
        call.count()
        call.number += 1
        if operation.name in ("send_object_list", "recv_object_list"):
            _between_two(call, given)
        waiter = Threaded(run, functools.partial(blame.prepare, call))
        TimedWork(call, waiter, None, deliver).wait()
        return waiter.result

    return timed


def _private_lists(
    original: Function, given: dict[str, Any], outputs: tuple[str, ...]
) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Let the thread fill lists of its own, which become the caller's only on success."""
    lists = {name: given[name] for name in outputs if isinstance(given.get(name), list)}
    own = {name: list(value) for name, value in lists.items()}

    def deliver() -> None:
        for name, value in lists.items():
            value[:] = own[name]

    return functools.partial(original, **{**given, **own}), deliver


def _between_two(call: Call, given: dict[str, Any]) -> None:
    sends = call.op.startswith("send")
    call.verb = "receive" if sends else "send"
    names = ("dst", "group_dst") if sends else ("src", "group_src")
    call.partners = partners(call.group, *(given.get(name) for name in names))


def partners(group: Group, world: int | None, within: int | None) -> tuple[int, ...]:
    """Return the global ranks that a send or receive is with; all others when none is named."""
    if within is not None:
        return (group.ranks[within],)
    return (world,) if world is not None else group.ranks


def all_timed() -> dict[str, Function]:
    """Make all collectives and object collectives that this torch has."""
    found = {op.name: wrapped(op, collective(op)) for op in COLLECTIVES if hasattr(c10d, op.name)}
    return found | {op.name: wrapped(op, objects(op)) for op in OBJECTS if hasattr(c10d, op.name)}
