"""The handle of an operation with a limit: it waits that long, then says which rank is missing."""

import time
from collections.abc import Callable
from typing import Any

from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import held, limits
from unstuck.dist.base.calls import Call
from unstuck.dist.base.errors import CollectiveTimeout
from unstuck.dist.base.limits import NEVER, Limit, seconds_of
from unstuck.dist.base.waiting import Waiter
from unstuck.dist.missing import blame
from unstuck.dist.timed.giving_up import give_up_group
from unstuck.errors import TensorInUseError

Deliver = Callable[[], None]
_WRITE_UNCOUNTED = ("all_reduce", "reduce")
"""Operations that write their result without changing the version of the tensor."""


class TimedWork(c10d.Work):
    """A `torch.distributed.Work` whose `wait` ends at the operation's time limit.

    `wait()` raises `CollectiveTimeout` when the time given at the call has passed. That does not
    end the operation: another `wait()` waits as long as it takes, `wait(timeout=...)` for at most
    that long from now.
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
            timeout: seconds or timedelta from now, instead of the rest of the call's own limit.
        """
        began = time.monotonic()
        until = self._limit if timeout is None else began + seconds_of(timeout)
        until = min(until, limits.end())
        allowed = self.call.allowed if until == self.call.until else until - began
        with held.waiting(self.call):
            if not self._completed(until):
                self._raise_timeout(allowed)
        self._settle()
        return True

    def _completed(self, until: float) -> bool:
        try:
            return self.waiter.wait(until)
        except BaseException as error:
            self.failed(error)
            raise

    def failed(self, error: BaseException) -> None:
        """Record what ended the waiting; raise a better error where one is known."""
        if not self.waiter.over():
            held.hold(self)  # Ctrl-C, or an exception from a signal handler: it is still running
            return
        held.release(self, abandoned=True)
        blame.explain_failure(self, error)

    def _raise_timeout(self, allowed: float) -> None:
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
            raise TensorInUseError(
                f"the program wrote to a tensor while {self.call.label()} was still using it: its"
                " contents are not the result",
                hint="use copy=True, or leave the tensor alone until error.work.wait() returns",
            )
        if self._deliver is not None:
            self._deliver()
            self._deliver = None

    def _written(self) -> list[int]:
        """Return how often the program wrote to each tensor; empty where torch's writes count."""
        if self.call.op not in _WRITE_UNCOUNTED:
            return []
        return [tensor._version for tensor in self.call.tensors]

    def give_up(self) -> None:
        """End this operation and every other one of its group."""
        give_up_group(self.call.group)

    def is_completed(self) -> bool:
        """Tell whether the operation has ended."""
        return self.waiter.over()

    def result(self) -> Any:
        """Return the tensors, or what an object collective returns."""
        if self.call.composite:
            return getattr(self.waiter, "result", None)
        return self._inner.result()

    def __getattr__(self, name: str) -> Any:
        """Pass on what only torch's handle has, such as `then` of a future."""
        return getattr(self.__dict__["_inner"], name)

    def __repr__(self) -> str:
        state = "complete" if self.waiter.over() else "running"
        return f"<{self.call.label()} on group {self.call.group.name!r}, {state}>"


def _delegate(name: str) -> Any:
    def method(self: TimedWork, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._inner, name)(*args, **kwargs)

    method.__name__ = name
    return method


for _name in dir(c10d.Work):
    if not _name.startswith("__") and _name not in vars(TimedWork) and _name != "unbox":
        setattr(TimedWork, _name, _delegate(_name))
