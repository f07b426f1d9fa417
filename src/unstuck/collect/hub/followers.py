"""Readers of a job, such as the live page: they receive what the hub has judged.

A follower gets the whole job about once a second, and news as it happens. Whatever people ask of
it then costs the hub nothing, and one that does not keep up misses some of these.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from unstuck.clock import SYSTEM, Clock
from unstuck.collect import wire
from unstuck.collect.session import Session
from unstuck.model.frame import Frame
from unstuck.model.snapshot import Snapshot

FOLLOWER = "?"
"""Begins the name of a follower; no host has such a name."""
STATE = "state"
"""The topic of everything about the job but its ranks, which follow as a frame."""
MOST = 8
"""Followers at a time."""
_EVERY = 0.95
_SHARE = 20.0
"""A pause is at least this many times what it took to send the job: 5 % of the hub's time."""
_MOST_WAITING = 4 << 20
"""Bytes that may wait for one follower before it misses something."""


class Followers:
    """Sends the job to all followers; without any it does nothing."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._sessions: dict[Session, None] = {}
        self._due = 0.0
        self._number = 0

    async def stay(self, session: Session, held: Iterable[wire.News]) -> None:
        """Keep a follower until it leaves; first it gets the news that hold."""
        if len(self._sessions) >= MOST:
            return
        self._sessions[session] = None
        self._due = 0.0
        try:
            for news in tuple(held):
                session.send(news)
            while not isinstance(message := await session.receive(), wire.Bye):
                if isinstance(message, wire.Lack):
                    for part in session.packer.bodies(message.wanted):
                        session.send(wire.Parts((part,)))
        finally:
            del self._sessions[session]

    def tell(self, news: wire.News) -> None:
        """Send news; after a verdict the job that led to it follows at once."""
        for session in tuple(self._sessions):
            session.send(news)
        if news.topic == "verdicts":
            self._due = 0.0

    def show(self, snapshot: Snapshot) -> None:
        """Send the job as it was judged, unless that was done a moment ago."""
        began = self._clock.monotonic()
        if not self._sessions or began < self._due:
            return
        self._number += 1
        state = msgspec.json.encode(replace(snapshot, ranks=())).decode()
        news = wire.News(STATE, state)
        frame = Frame("", snapshot.hub, self._number, snapshot.taken_at, snapshot.ranks)
        for session in tuple(self._sessions):
            if session.writer.transport.get_write_buffer_size() < _MOST_WAITING:
                session.send(news)
                session.send_frame(frame)
        now = self._clock.monotonic()
        self._due = now + max(_EVERY, _SHARE * (now - began))
