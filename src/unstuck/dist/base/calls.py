"""An operation that was issued with a limit, and the handle that waits for it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from unstuck.dist.base.groups import SENT, Group
from unstuck.dist.base.limits import Limit
from unstuck.dist.base.waiting import Waiter


@dataclass(eq=False)
class Call:
    """One issued operation."""

    op: str
    group: Group
    allowed: float
    """Seconds the operation was given."""
    until: float
    issued: float = field(default_factory=time.monotonic)
    number: int = 0
    messages: int = 0
    """How many sends and receives that number includes."""
    verb: str = "arrive"
    """What this rank waits for the others to do: arrive, send or receive."""
    partners: tuple[int, ...] | None = None
    """Global ranks it waits for; None: the whole group."""
    tensors: Sequence[torch.Tensor] = ()
    """What torch reads and writes until the operation ends; empty when it works on copies."""
    copied: bool = False
    in_place: bool = False
    composite: bool = False
    """It consists of several operations, between which no other may be issued."""

    def count(self) -> None:
        """Read the operation's number, right after it was issued."""
        self.number = self.group.issued()
        self.messages = SENT.get(self.group.name, 0)

    def index(self) -> int:
        """Return its number among the collectives of the group: the same in every member."""
        return self.group.without_messages(self.number, self.messages)

    def label(self) -> str:
        """Name the operation in messages.

        Example: `all_reduce #7`.
        """
        return f"{self.op} #{self.number}" if self.number else self.op


class Handle(Protocol):
    """The handle of an operation with a limit; `timed.work.TimedWork` is the only kind."""

    call: Call
    waiter: Waiter

    def wait(self, timeout: Limit | None = None) -> bool:
        """Wait until the operation is complete; raise `CollectiveTimeout` at its limit."""
        ...

    def is_completed(self) -> bool:
        """Tell whether the operation has ended."""
        ...

    def result(self) -> Any:
        """Return the tensors, or what an object collective returns."""
        ...

    def give_up(self) -> None:
        """End this operation and every other one of its group."""
        ...
