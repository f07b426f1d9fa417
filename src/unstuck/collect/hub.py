"""The hub: one per job. It takes frames in and asks `judge` what they mean."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable

from unstuck.collect import wire
from unstuck.collect.membership import Membership
from unstuck.model.evidence import EvidenceRequest
from unstuck.model.snapshot import Snapshot

JUDGE_EVERY = 0.25
_ASK_AGAIN_AFTER = 1.0
_LAST_LOOK = 1.0
"""How long a job that ended badly is still judged: the first death needs time to show."""

_DESERTED_AFTER = 30.0

Judge = Callable[[Snapshot], tuple[EvidenceRequest, ...]]


class Hub:
    """Accepts agents that know the token; keeps no state that a frame would not restore."""

    def __init__(self, token: str, judge: Judge) -> None:
        self._token = token
        self._judge = judge
        self._membership = Membership()
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._asked: dict[EvidenceRequest, float] = {}
        self._news = asyncio.Event()
        self._launcher = os.getppid()
        self._company = 0.0

    async def serve(self, listener: socket.socket) -> None:
        """Serve until all nodes have said that their part has ended."""
        server = await asyncio.start_server(self._agent, sock=listener, limit=1 << 20)
        self._company = time.monotonic()
        try:
            while not self._membership.all_ended(time.monotonic()) and not self._deserted():
                await self._round()
            last = time.monotonic() + _LAST_LOOK * self._membership.ended_badly
            while time.monotonic() < last:
                await self._round()
        finally:
            server.close()

    def _deserted(self) -> bool:
        """Tell whether the launcher is gone and no agent is left: nobody would end this hub."""
        now = time.monotonic()
        if self._writers or os.getppid() == self._launcher:
            self._company = now
        return now - self._company > _DESERTED_AFTER

    async def _round(self) -> None:
        """Judge when news came, and at least every quarter of a second: silence is news too."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JUDGE_EVERY):
                await self._news.wait()
        self._news.clear()
        snapshot = self._membership.snapshot(time.monotonic(), time.time())
        if snapshot.ranks:
            self._ask(self._judge(snapshot))

    def say(self, text: str, *, but: str) -> None:
        """Tell one line to the people at every node, except those of host `but`."""
        for node, writer in self._writers.items():
            if not node.startswith(f"{but}/"):
                writer.write(wire.encode(wire.Say(text)))

    def _ask(self, requests: tuple[EvidenceRequest, ...]) -> None:
        now = time.monotonic()
        due = tuple(r for r in requests if now - self._asked.get(r, 0.0) > _ASK_AGAIN_AFTER)
        if not due:
            return
        self._asked = {r: t for r, t in self._asked.items() if now - t < 60}
        self._asked.update(dict.fromkeys(due, now))
        for writer in self._writers.values():
            writer.write(wire.encode(wire.Ask(due)))

    async def _agent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        node = ""
        try:
            node = await self._admit(reader, writer)
            self._writers[node] = writer
            while not isinstance(message := await wire.receive(reader), wire.Bye):
                if isinstance(message, wire.Report) and message.frame.node == node:
                    self._membership.hear(message.frame, time.monotonic())
                    self._news.set()
        except asyncio.CancelledError:
            pass  # the job has ended; Python 3.11 would print a traceback about it
        except ConnectionResetError:
            self._lost(node, writer)
        except (OSError, TimeoutError):
            pass  # unreachable, or not an agent: silence will show
        finally:
            if self._writers.get(node) is writer:
                del self._writers[node]
            writer.close()

    def _lost(self, node: str, writer: asyncio.StreamWriter) -> None:
        """Closed by the other side. A host that is cut off closes nothing: it falls silent."""
        if node and self._writers.get(node) is writer:
            self._membership.lose(node, time.monotonic())
            self._news.set()

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        mine = wire.nonce()
        writer.write(wire.encode(wire.Challenge(mine)))
        hello = await wire.receive(reader, within=5)
        if not isinstance(hello, wire.Hello):
            raise ConnectionError("not an unstuck agent")
        expected = wire.proof(self._token, "agent", mine, hello.nonce, hello.node)
        if hello.protocol != wire.PROTOCOL or not wire.same(hello.proof, expected):
            reason = "wrong token: set the same UNSTUCK_TOKEN on every node"
            writer.write(wire.encode(wire.Refused(reason)))
            await writer.drain()
            raise ConnectionError(reason)
        answer = wire.proof(self._token, "hub", mine, hello.nonce, hello.node)
        writer.write(wire.encode(wire.Welcome(answer)))
        return hello.node
