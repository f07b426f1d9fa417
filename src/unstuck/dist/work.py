"""The handle of an operation with a limit: waits as long as allowed, then says who is missing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d

from unstuck.dist import blame, held, leaving, limits
from unstuck.dist.errors import CollectiveTimeout
from unstuck.dist.groups import SENT, Group
from unstuck.dist.limits import NEVER, Limit, seconds_of
from unstuck.dist.waiting import Waiter

Deliver = Callable[[], None]
_WRITE_UNCOUNTED = ("all_reduce", "reduce")
"""Operations that write their result without changing the version of the tensor."""


@dataclass(eq=False)
class Call:
    """One operation that was issued."""

    op: str
    group: Group
    allowed: float
    """Seconds that it was given."""
    until: float
    issued: float = field(default_factory=time.monotonic)
    number: int = 0
    messages: int = 0
    """Sends and receives that are counted in that number."""
    verb: str = "come"
    partners: tuple[int, ...] | None = None
    """Global ranks it waits for; None: all of the group."""
    tensors: Sequence[torch.Tensor] = ()
    """What torch reads and writes until it ends; empty when that are private copies."""
    copied: bool = False
    in_place: bool = False
    several: bool = False
    """It consists of several operations, between which no other may be issued."""

    def count(self) -> None:
        """Take its number, right after it was issued."""
        self.number = self.group.issued()
        self.messages = SENT.get(self.group.name, 0)

    def index(self) -> int:
        """Return its number among the collectives of the group: the same in every member."""
        return self.group.without_messages(self.number, self.messages)

    def words(self) -> str:
        """Name it as in a list.

        Example: `all_reduce #7`.
        """
        return f"{self.op} #{self.number}" if self.number else self.op


class TimedWork(c10d.Work):
    """A `torch.distributed.Work` whose `wait` ends when the operation's time is up.

    `wait()` raises `CollectiveTimeout` when the time given at the call has passed. The operation
    is not ended by that: `wait()` again waits as long as it takes, `wait(timeout=...)` for at
    most so long, counted from then.
    """

    def __init__(self, call: Call, waiter: Waiter, inner: Any, deliver: Deliver | None) -> None:
        super().__init__()
        self.call = call
        self.waiter = waiter
        self._inner: Any = inner
        self._deliver = deliver
        self._versions = self._written()
        self._limit = call.until
        self.timed_out = False
        held.track(self)

    def wait(self, timeout: Limit | None = None) -> bool:
        """Wait until the operation is complete; raise `CollectiveTimeout` when it takes too long.

        Args:
            timeout: seconds or timedelta from now, instead of what is left of the call's own.
        """
        began = time.monotonic()
        until = self._limit if timeout is None else began + seconds_of(timeout)
        until = min(until, limits.end())
        allowed = self.call.allowed if until == self.call.until else until - began
        with held.waiting(self.call):
            if not self._completed(until):
                self._overdue(allowed)
        self._settle()
        return True

    def _completed(self, until: float) -> bool:
        try:
            return self.waiter.wait(until)
        except BaseException as error:
            self.failed(error)
            raise

    def failed(self, error: BaseException) -> None:
        """Note what ended the waiting; raise something better where it is known."""
        if not self.waiter.over():
            held.hold(self)  # Ctrl-C, or what a signal handler raised: it is still under way
            return
        held.release(self)
        if self.call.in_place:
            held.spoil(self)
        blame.explain_failure(self, error)

    def _overdue(self, allowed: float) -> None:
        overdue = blame.roll_call(self.call, allowed)
        if self.waiter.over() and self._completed(time.monotonic()):
            return
        self.timed_out = True
        self._limit = NEVER
        held.hold(self)
        raise CollectiveTimeout(overdue, self)

    def _settle(self) -> None:
        held.release(self)
        if self.timed_out and self._written() != self._versions:
            raise held.changed_meanwhile(self)
        if self._deliver is not None:
            self._deliver()
            self._deliver = None

    def _written(self) -> list[int]:
        """Return how often the program wrote into each tensor; other operations write there too."""
        if self.call.op not in _WRITE_UNCOUNTED:
            return []
        return [tensor._version for tensor in self.call.tensors]

    def give_up(self) -> None:
        """End this operation and every other one of its group."""
        leaving.give_up_group(self.call.group)

    def is_completed(self) -> bool:
        """Tell whether the operation ended."""
        return self.waiter.over()

    def result(self) -> Any:
        """Return the tensors, or what an object collective returns."""
        return getattr(self.waiter, "result", None) if self.call.several else self._inner.result()

    def __getattr__(self, name: str) -> Any:
        """Pass on what only the handle of torch has, such as `then` of a future."""
        return getattr(self.__dict__["_inner"], name)

    def __repr__(self) -> str:
        state = "complete" if self.waiter.over() else "under way"
        return f"<{self.call.words()} on group {self.call.group.name!r}, {state}>"


def _delegate(name: str) -> Any:
    def method(self: TimedWork, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._inner, name)(*args, **kwargs)

    method.__name__ = name
    return method


for _name in dir(c10d.Work):
    if not _name.startswith("__") and _name not in vars(TimedWork) and _name != "unbox":
        setattr(TimedWork, _name, _delegate(_name))
