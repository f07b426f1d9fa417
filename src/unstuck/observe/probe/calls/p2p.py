"""Sends and receives, which the flight recorder does not record for gloo."""

import time
from collections import deque
from typing import Any, NamedTuple

from unstuck.observe.probe.calls import kernels

_OPERATIONS = {"send": "send", "recv_": "recv", "recv_any_source_": "recv"}
_MOST_PENDING = 64


class _Pending(NamedTuple):
    kind: str
    group: str
    peer: int
    ordinal: int
    tag: int
    since: float
    work: Any


class PointToPointLog:
    """What was sent and received; the training thread only appends to a deque."""

    def __init__(self) -> None:
        self._fresh: deque[tuple[str, float, tuple[Any, ...], Any]] = deque(maxlen=4096)
        self._pending: list[_Pending] = []
        self._ordinals: dict[tuple[str, str, int], int] = {}
        self._c10d: Any = None
        self.issued: dict[str, int] = {}
        """How many operations were issued per group."""

    @property
    def total(self) -> int:
        """How many operations were issued in all."""
        return sum(self.issued.values())

    def install(self, c10d: Any) -> None:
        """See every send and receive from now on. Once per process."""
        if self._c10d is None:
            self._c10d = c10d
            kernels.install(_OPERATIONS, self._note)

    def _note(self, operation: str, args: tuple[Any, ...], work: Any) -> None:
        self._fresh.append((_OPERATIONS[operation], time.monotonic(), args[1:], work))

    def look(self) -> list[list[Any]]:
        """Return the operations that are still incomplete, oldest first. Helper thread only."""
        while self._fresh:
            self._admit(*self._fresh.popleft())
        self._pending = [item for item in self._pending if not item.work.is_completed()]
        now = time.monotonic()
        return [
            [item.kind, item.group, item.peer, item.ordinal, item.tag, round(now - item.since, 3)]
            for item in self._pending
        ]

    def _admit(self, kind: str, since: float, args: tuple[Any, ...], work: Any) -> None:
        bindings = self._c10d.torch._C._distributed_c10d
        group = bindings.ProcessGroup.unbox(args[0])
        name = str(group.group_name)
        *to, tag = args[1:]
        peer = to[0] if to else -1
        if peer >= 0:
            peer = self._c10d.get_global_rank(group, peer)
        key = (name, kind, peer)
        self._ordinals[key] = self._ordinals.get(key, 0) + 1
        self.issued[name] = self.issued.get(name, 0) + 1
        item = _Pending(
            kind, name, peer, self._ordinals[key], tag, since, bindings.Work.unbox(work)
        )
        # A send that nobody waits for never reports its end, and holds its tensor: let go of
        # what came before it on the same way, and of everything beyond a bound.
        self._pending = [
            old
            for old in self._pending[-_MOST_PENDING:]
            if (old.group, old.kind, old.peer) != key or since - old.since < 60
        ]
        self._pending.append(item)
