"""What a relay between agent and hub can do: end the connection, and nothing else."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from hubs import Peer, connect, run, serving
from unstuck.collect import session as sessions
from unstuck.collect import wire
from unstuck.collect.session import AlteredError
from unstuck.model.order import Act, Order
from unstuck.model.rank import Process, RankState

RANK = RankState(0, "a", Process(7), attempt="x", world_size=1)
STOP = wire.Do(Order(1, Act.STOP, code=82))
LENGTH_BYTES = 4


class Relay:
    """Passes whole messages on, except that one of them goes through the attacker's hands."""

    def __init__(self, hub: int, after: int, tamper: Callable[[bytes], bytes]) -> None:
        self._hub = hub
        self._after = after
        self._tamper = tamper
        self._open: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._hub)
        self._open += (writer, there[1])
        await asyncio.gather(
            self._pass(reader, there[1], 1 << 30), self._pass(there[0], writer, self._after)
        )

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, after: int
    ) -> None:
        number = 0
        while True:
            try:
                length = await source.readexactly(LENGTH_BYTES)
                message = length + await source.readexactly(int.from_bytes(length))
            except (asyncio.IncompleteReadError, OSError):
                target.close()
                return
            number += 1
            target.write(self._tamper(message) if number == after else message)

    async def close(self) -> None:
        for writer in self._open:
            writer.close()
        await asyncio.gather(*(one.wait_closed() for one in self._open), return_exceptions=True)


@asynccontextmanager
async def relayed(
    hub: int, tamper: Callable[[bytes], bytes], after: int = 3
) -> AsyncGenerator[Peer, None]:
    """Connect an agent through a relay that changes the hub's message of this number."""
    relay = Relay(hub, after, tamper)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    async with server:
        peer = await connect(server.sockets[0].getsockname()[1], "a/1")
        await peer.send("a/1", RANK)
        yield peer
        await peer.close()
        await relay.close()


def test_relay_that_changes_nothing_is_not_noticed():
    async def story() -> None:
        async with serving() as hub, relayed(hub.port, lambda message: message) as peer:
            await hub.until(lambda s: s.ranks)
            hub.hub.say("one", but="")
            hub.hub.say("two", but="")
            assert await peer.receive() == wire.Say("one")
            assert await peer.receive() == wire.Say("two")

    run(story())


@pytest.mark.parametrize(
    "tamper",
    [
        lambda message: wire.encode(STOP) + message,
        lambda message: sealed_by_guess(STOP) + message,
        lambda message: message[:-1] + bytes([message[-1] ^ 1]),
        lambda message: message * 2,
        lambda message: b"",
    ],
    ids=["plain order", "order with a made-up seal", "changed", "repeated", "left out"],
)
def test_order_of_a_relay_is_not_obeyed(tamper: Callable[[bytes], bytes]):
    async def story() -> None:
        async with serving() as hub, relayed(hub.port, tamper) as peer:
            await hub.until(lambda s: s.ranks)
            for text in ("one", "two", "three"):
                hub.hub.say(text, but="")
            received: list[wire.Message] = []

            async def listen() -> None:
                while True:
                    received.append(await peer.receive())

            with pytest.raises(AlteredError, match="on its way"):
                await listen()
            assert not [one for one in received if isinstance(one, wire.Do)]

    run(story())


def sealed_by_guess(message: wire.Message) -> bytes:
    """Seal a message with a key that is not the session's."""
    content = sessions.MESSAGE + wire.body(message)
    tag = sessions._tag(b"a guess", 0, content)
    return wire.LENGTH.pack(len(tag + content)) + tag + content


def test_message_of_another_connection_of_the_same_agent_does_not_count():
    async def story() -> None:
        async with serving() as hub:
            kept: list[bytes] = []

            def keep(message: bytes) -> bytes:
                kept.append(message)
                return message

            async with relayed(hub.port, keep) as peer:
                await hub.until(lambda s: s.ranks)
                hub.hub.say("to be replayed", but="")
                assert await peer.receive() == wire.Say("to be replayed")
            async with relayed(hub.port, lambda message: kept[0] + message) as peer:
                hub.hub.say("now", but="")
                with pytest.raises(AlteredError):
                    await peer.receive()

    run(story())


def test_agent_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "MOST_UNREAD", 1 << 20)

    async def story() -> None:
        async with serving() as hub:
            deaf, good = await connect(hub.port, "deaf/1"), await connect(hub.port, "a/1")
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await deaf.send("deaf/1", RANK)
            await good.send("a/1", RANK)
            await hub.until(lambda s: len(s.nodes) == 2)
            for _ in range(200):
                hub.hub.say("x" * (1 << 16), but="a")
                await asyncio.sleep(0)
            await hub.until(lambda _: "deaf/1" not in hub.hub._sessions)
            hub.hub.say("still here", but="deaf")
            assert await good.receive() == wire.Say("still here")
            for peer in (deaf, good):
                await peer.close()

    run(story())
