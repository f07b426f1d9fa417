"""Frames that have arrived and were not read yet: of each node the newest one.

A hub that is slower than its input reads fewer frames, never older ones: a frame is whole, so a
newer one replaces it. Only what is said once, such as a node's last frame, is always read.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from unstuck.collect.parts import Tables

_TELL_EVERY = 60.0
_TOO_MANY = 0.1
"""Share of frames that were skipped, from which on people are told."""


class Arrived(NamedTuple):
    """A frame as it came, and what it refers to."""

    link: Any
    """The connection it came by, for whoever reads it."""
    body: bytes
    tables: Tables
    at: float
    lasting: bool
    """It must be read also when a newer one is there."""


class Inbox:
    """Keeps for each node what is to be read next.

    Example:
        >>> inbox = Inbox(now=0.0)
        >>> for number in (b"1", b"2"):
        ...     inbox.put("a/1", Arrived(None, number, [], 0.0, lasting=False))
        >>> [frame.body for frame in inbox.take()]
        [b'2']
    """

    def __init__(self, now: float) -> None:
        self._waiting: dict[str, list[Arrived]] = {}
        self._arrived = 0
        self._skipped: dict[str, int] = {}
        self._told = now

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, node: str, frame: Arrived) -> None:
        """Keep a frame; it replaces the one before it."""
        self._arrived += 1
        frames = self._waiting.setdefault(node, [])
        if frames and not frames[-1].lasting:
            frames.pop()
            self._skipped[node] = self._skipped.get(node, 0) + 1
        frames.append(frame)

    def take(self, node: str | None = None) -> Iterator[Arrived]:
        """Hand over what waits, first the node that has waited longest; or that of one node."""
        names = self._waiting if node is None else ([node] if node in self._waiting else [])
        for name in list(names):
            yield from self._waiting.pop(name, ())

    def complaint(self, now: float) -> str:
        """Say, once a minute at most, that too many frames were skipped; empty otherwise."""
        if now - self._told < _TELL_EVERY:
            return ""
        skipped, nodes, arrived = sum(self._skipped.values()), len(self._skipped), self._arrived
        self._told, self._arrived, self._skipped = now, 0, {}
        if skipped <= _TOO_MANY * arrived:
            return ""
        return (
            f"this hub is slower than its input: in the last minute it skipped {skipped} of"
            f" {arrived} frames, of {nodes} nodes, and read newer ones of them instead"
        )
