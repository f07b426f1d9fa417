"""Giving a function of torch a `timeout=`, and what every timed call has to check first."""

import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import held, limits
from unstuck.dist.base.calls import Call
from unstuck.dist.base.errors import CollectiveTimeout, Overdue
from unstuck.dist.base.groups import SENT, Group
from unstuck.dist.base.limits import ENGAGED, NEVER, Limit, seconds_of
from unstuck.dist.missing import rollcall
from unstuck.dist.timed.giving_up import join_roll_call
from unstuck.dist.timed.operations import Operation

Function = Callable[..., Any]
Timed = Callable[[Any, Any, Limit | None, bool], Any]
"""Called with the positional and the keyword arguments, `timeout` and `copy`."""
ON_DEVICE = ("nccl", "xccl")
"""Backends whose `wait` returns while the device is still busy."""
_NOTE = """

    With unstuck.dist also:
        timeout (float or timedelta, optional): seconds after which a rank that waits gets
            `CollectiveTimeout`, which names the ranks that have not arrived. The group stays
            usable.
        copy (bool, optional): work on private copies, so that a timeout leaves the tensors
            as they were. Without it, do not touch them until the operation ends.
"""


def wrapped(operation: Operation, timed: Timed) -> Function:
    """Give a function of torch its `timeout=` and `copy=`."""
    original = torch_function(operation)
    engaged = ENGAGED

    @functools.wraps(original)
    def call(*args: Any, timeout: Limit | None = None, copy: bool = False, **kwargs: Any) -> Any:
        if timeout is None and not engaged[0]:
            return original(*args, **kwargs)
        return timed(args, kwargs, timeout, copy)

    signature = inspect.signature(original)
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in (("timeout", None), ("copy", False))
    ]
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *extra]
    )
    call.__doc__ = (original.__doc__ or "").rstrip() + _NOTE
    return call


def torch_function(operation: Operation) -> Function:
    """Return torch's function; one that sends or receives also counts its messages."""
    function: Function = getattr(c10d, operation.name)
    if not operation.messages:
        return function
    position = names_of(function).index("group")

    @functools.wraps(function)
    def counting(*args: Any, **kwargs: Any) -> Any:
        group = args[position] if len(args) > position else kwargs.get("group")
        count_messages(group, operation.messages)
        return function(*args, **kwargs)

    return counting


def count_messages(group: Any, messages: int) -> None:
    """Count sends and receives of a group; an invalid group is for torch to refuse."""
    pg = c10d.GroupMember.WORLD if group is None else group
    if isinstance(pg, c10d.ProcessGroup):
        SENT[pg.group_name] = SENT.get(pg.group_name, 0) + messages


def names_of(function: Function) -> tuple[str, ...]:
    """Return the names of a function's arguments."""
    return tuple(inspect.signature(function).parameters)


def with_names(op: str, names: tuple[str, ...], args: Any, kwargs: Any) -> dict[str, Any]:
    """Return all arguments by name; missing or unknown ones are for torch to refuse."""
    if len(args) > len(names):
        raise TypeError(f"{op}() takes {len(names)} arguments but {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    twice = given.keys() & kwargs.keys()
    if twice:
        raise TypeError(f"{op}() got multiple values for argument {min(twice)!r}")
    return given | kwargs


def begin(
    op: str, group: Group, timeout: Limit | None, tensors: list[torch.Tensor], copy: bool
) -> Call | None:
    """Check an operation and set its limit; None when it has none."""
    allowed = NEVER if timeout is None else seconds_of(timeout)
    now = time.monotonic()
    until = min(now + allowed, limits.end())
    held.check(group, tensors, op)
    if until == NEVER:
        return None
    if until <= now:
        raise CollectiveTimeout(
            Overdue(op, 0, group.name, group.ranks, group.rank, 0.0, 0.0, started=False)
        )
    if rollcall.current() is None:
        join_roll_call(c10d._get_default_group(), c10d._get_default_store())
    copied = (copy or limits.copies()) and bool(tensors)
    return Call(
        op, group, until - now, until, now, copied=copied, tensors=() if copied else tensors
    )


def address(call: Call, operation: Operation, given: dict[str, Any]) -> None:
    """Note which rank a send or receive waits for, and for what."""
    if operation.partner is None:
        return
    call.verb = "receive" if operation.sends else "send"
    world, within = (given.get(name) for name in operation.partner)
    if within is not None:
        call.partners = (call.group.ranks[within],)
    else:  # receiving from any rank
        call.partners = (world,) if world is not None else call.group.ranks
