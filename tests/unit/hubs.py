"""Real hubs and agents on the loopback interface, for the tests."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import clocks
from unstuck.collect import wire
from unstuck.collect.hub.hub import Hub
from unstuck.collect.session import Session, introduce
from unstuck.model.frame import Frame
from unstuck.model.rank import RankState
from unstuck.model.requests import EvidenceRequest
from unstuck.model.snapshot import Snapshot

TOKEN = "a secret of the tests"


class Served:
    """A hub that serves; it keeps every snapshot it was asked to judge."""

    def __init__(self, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self.snapshots: list[Snapshot] = []
        self.wants: tuple[EvidenceRequest, ...] = ()
        self.hub = Hub(TOKEN, self._judge, clock=clocks.current())
        self.task = asyncio.create_task(self.hub.serve(listener))

    def _judge(self, snapshot: Snapshot) -> tuple[EvidenceRequest, ...]:
        self.snapshots.append(snapshot)
        return self.wants

    async def until(self, look: Callable[[Snapshot], Any]) -> Snapshot:
        """Wait for a snapshot that looks right."""
        async with asyncio.timeout(20):
            while not (self.snapshots and look(self.snapshots[-1])):
                assert not self.task.done(), "the hub has ended"
                await asyncio.sleep(0.05)
        return self.snapshots[-1]


@asynccontextmanager
async def serving(listener: socket.socket | None = None) -> AsyncGenerator[Served, None]:
    """Serve a hub on a port of the loopback interface."""
    hub = Served(listener or socket.create_server(("127.0.0.1", 0)))
    try:
        yield hub
    finally:
        hub.task.cancel()
        await asyncio.gather(hub.task, return_exceptions=True)


class Peer:
    """The agent's end of a connection, moved by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.session: Session | None = None
        self.number = 0
        self.news: list[wire.News] = []

    async def send(self, node: str, *ranks: RankState, **fields: Any) -> None:
        self.number += 1
        frame = Frame(node, node.partition("/")[0], self.number, 0.0, ranks, **fields)
        assert self.session is not None
        self.session.send_frame(frame)
        await self.writer.drain()

    async def receive(self) -> wire.Message:
        """Return the next message that is not for the ranks of the node."""
        while isinstance(message := await self._next(), wire.News):
            self.news.append(message)
        return message

    async def _next(self) -> wire.Message:
        if self.session is None:
            return await wire.receive(self.reader, 10)
        return await asyncio.wait_for(self.session.receive(), 10)

    def say(self, message: wire.Message) -> None:
        """Send a message of one who was admitted."""
        assert self.session is not None
        self.session.send(message)

    async def hear(self, topic: str) -> Any:
        """Return the next news of a topic."""
        while True:
            message = await self._next()
            if isinstance(message, wire.News) and message.topic == topic:
                return json.loads(message.text)

    async def close(self) -> None:
        self.writer.close()
        await asyncio.gather(self.writer.wait_closed(), return_exceptions=True)


async def connect(port: int, node: str = "", token: str = TOKEN, probes: int = 0) -> Peer:
    """Connect to a hub; with a node's name, do the handshake as well."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    if node:
        try:
            host = node.partition("/")[0]
            peer.session = await introduce(peer.reader, peer.writer, token, node, host, probes)
        except OSError:
            await peer.close()
            raise
    return peer


@contextmanager
def agent(
    live: Path, port: int, token: str = TOKEN, *options: str
) -> Generator[subprocess.Popen[str], None, None]:
    """Start a real agent process; the test is its launcher."""
    process = subprocess.Popen(
        [sys.executable, "-m", "unstuck.collect.agent.agent", "--live", str(live),
         "--node", "here/1",
         "--host", "here", "--hub", f"127.0.0.1:{port}", *options],
        env={**os.environ, "UNSTUCK_TOKEN": token},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stderr):
            if pipe is not None:
                pipe.close()


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run an asynchronous story; whatever a task raised and nobody caught fails it."""
    _run(story, asyncio.new_event_loop)


def run_fast(story: Coroutine[Any, Any, None]) -> None:
    """Run a story of this process alone: the time in which all of it only waits is skipped."""
    _run(story, lambda: clocks.SkippingLoop(clocks.FakeClock()))


def _run(story: Coroutine[Any, Any, None], loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    uncaught: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: uncaught.append(what))
        await story

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(watched())
    assert not uncaught
