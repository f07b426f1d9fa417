"""Follow a running job from another process: its state, its verdict and its notices."""

import asyncio
import contextlib
import os

import msgspec
from msgspec.structs import replace

from unstuck.clock import SYSTEM, Clock
from unstuck.collect import wire
from unstuck.collect.compact import Library, Unpacker, read_ranks
from unstuck.collect.hub.followers import FOLLOWER, STATE
from unstuck.collect.session import MESSAGE, Session, introduce
from unstuck.model.notice import Notice
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict, VerdictFile

_RETRY_AFTER = 0.5
_CONNECT_WITHIN = 5.0
_SILENT_AFTER = 30.0
"""Seconds without anything from the hub after which the connection is made anew."""


class Follower:
    """Keeps the job as the hub last judged it, its verdict and notices; connects by itself."""

    def __init__(self, hub: tuple[str, int], token: str, clock: Clock = SYSTEM) -> None:
        self._hub = hub
        self._token = token
        self._seen = Snapshot(taken_at=clock.time())
        self._coming: Snapshot | None = None
        """The state whose ranks have not arrived yet."""
        self._report: bytes | None = None
        """Ranks that refer to something that was asked for."""
        self._unpacker = Unpacker(Library())
        self.connected = False
        self.verdict: Verdict | None = None
        self.notices: tuple[Notice, ...] = ()
        self.news = asyncio.Event()
        """Set when something happened that people should see at once."""

    def snapshot(self) -> Snapshot:
        """Return the job as the hub last judged it.

        Example:
            view_job(follower.snapshot(), follower.verdict)
        """
        return self._seen

    async def follow(self) -> None:
        """Stay connected; returns only by being cancelled."""
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                await self._stay()
            self.connected = False
            self.news.set()
            await asyncio.sleep(_RETRY_AFTER)

    async def _stay(self) -> None:
        async with asyncio.timeout(_CONNECT_WITHIN):
            reader, writer = await asyncio.open_connection(*self._hub, limit=1 << 20)
        try:
            name = f"{FOLLOWER}{os.getpid()}"
            session = await introduce(reader, writer, self._token, name, "")
            self._unpacker = Unpacker(Library())
            self._coming = self._report = None
            self.verdict, self.notices = None, ()
            self.connected = True
            self.news.set()
            while True:
                async with asyncio.timeout(_SILENT_AFTER):
                    kind, body = await session.receive_body()
                if kind == MESSAGE:
                    self._take(wire.decode(body), session)
                else:
                    self._report = body
                    self._read()
        finally:
            writer.close()

    def _take(self, message: wire.Message, session: Session) -> None:
        match message:
            case wire.Parts(parts, begins):
                if wanted := self._unpacker.learn(parts, begins=begins):
                    session.send(wire.Lack(wanted))
                self._read()
            case wire.News(topic, text):
                with contextlib.suppress(msgspec.MsgspecError):
                    self._hear(topic, text)
            case _:
                pass

    def _read(self) -> None:
        """Read the ranks of the job, once all that they refer to is here."""
        if self._report is None or self._coming is None or self._unpacker.lacks:
            return
        report, self._report = wire.decode_report(self._report), None
        ranks = read_ranks(report.ranks, self._unpacker.tables)
        first = not self._seen.nodes
        self._seen = replace(self._coming, ranks=ranks)
        if first or self.verdict is not None:
            self.news.set()

    def _hear(self, topic: str, text: str) -> None:
        match topic:
            case _ if topic == STATE:
                self._coming = msgspec.json.decode(text, type=Snapshot)
                return
            case "verdicts":
                self.verdict = msgspec.json.decode(text, type=VerdictFile).verdict
            case "notices":
                self.notices = msgspec.json.decode(text, type=tuple[Notice, ...])
            case _:
                return
        self.news.set()
