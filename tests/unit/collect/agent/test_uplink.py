"""An agent whose hub falls silent: it knows, keeps its story, comes back and tells it once."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import clocks
from hubs import TOKEN, connect, run_fast, serving
from unstuck.collect import wire
from unstuck.collect.agent.cut_off import CutOffLog
from unstuck.collect.agent.uplink import Uplink
from unstuck.model.frame import Frame
from unstuck.model.order import Act, Order
from unstuck.model.rank import Process, RankState
from unstuck.model.requests import EvidenceRequest


class Node:
    """An agent that has one rank and nothing to do but report."""

    node, host, ended, obeys = "a/1", "a", False, True

    def __init__(self) -> None:
        self.uplink: Uplink | None = None
        self.orders: list[Order] = []
        self.left = ""

    def frame(self) -> Frame:
        rank = RankState(0, "a", Process(7), attempt="x", world_size=1)
        told = self.uplink.unreported if self.uplink else None
        cut_off_for = told.seconds if told else 0.0
        return Frame("a/1", "a", 1, 0.0, (rank,), cut_off_for=cut_off_for, ended=self.ended)

    def until_next_frame(self) -> float:
        return 0.1

    def collect(self, requests: Iterable[EvidenceRequest]) -> None:
        raise AssertionError(requests)

    def receive(self, news: wire.News) -> None:
        assert news.topic in ("roster", "peers")

    def obey(self, order: Order) -> None:
        self.orders.append(order)

    def leave(self, why: str) -> None:
        self.left = self.left or why


class Near(Uplink):
    """Takes the loopback interface for a network, as nothing else is there in a unit test."""

    def __init__(self, node: Node, port: int, kept: CutOffLog | None = None) -> None:
        super().__init__(node, ("127.0.0.1", port), TOKEN, kept, clocks.current())

    async def _open_prober(self, writer: asyncio.StreamWriter) -> int:
        self._confirms = True
        return await self.prober.open("127.0.0.1")


class Relay:
    """Passes bytes on between agent and hub, until it is told to hold them back."""

    def __init__(self, hub: int) -> None:
        self._hub = hub
        self.passes = asyncio.Event()
        self.passes.set()
        self.port = 0
        self.adds = b""
        """What it slips in before the hub's next message."""
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await self.passes.wait()
        there = await asyncio.open_connection("127.0.0.1", self._hub)
        self.writers.append(there[1])
        with contextlib.suppress(OSError):
            await asyncio.gather(
                self._pass(reader, there[1]), self._pass(there[0], writer, tampers=True)
            )

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, tampers: bool = False
    ) -> None:
        while data := await source.read(1 << 16):
            await self.passes.wait()
            if tampers:
                data, self.adds = self.adds + data, b""
            target.write(data)
        target.close()

    async def close(self) -> None:
        for writer in self.writers:
            writer.close()
        done = (writer.wait_closed() for writer in self.writers)
        await asyncio.gather(*done, return_exceptions=True)


@asynccontextmanager
async def relay(hub: int) -> AsyncGenerator[Relay, None]:
    made = Relay(hub)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made
        await made.close()


@asynccontextmanager
async def talking(node: Node, uplink: Uplink) -> AsyncGenerator[None, None]:
    node.uplink = uplink
    task = asyncio.create_task(uplink.talk())
    try:
        yield
    finally:
        task.cancel()
        uplink.prober.close()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.05)


def test_agent_that_was_cut_off_tells_its_story_when_it_is_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    async def story() -> None:
        node, kept = Node(), CutOffLog(tmp_path / "story", clocks.current())
        async with serving() as hub, relay(hub.port) as between:
            uplink = Near(node, between.port, kept)
            async with talking(node, uplink):
                await hub.until(lambda s: s.ranks)
                between.passes.clear()
                await hub.until(lambda _: kept.is_open)
                said = capsys.readouterr().err
                assert "the hub at 127.0.0.1 has been out of reach for 2." in said
                assert "alive here and still watched: rank 0" in said

                between.passes.set()
                snapshot = await hub.until(lambda s: s.nodes[0].cut_off_for)
                assert 2.5 < snapshot.nodes[0].cut_off_for < 10
                await hub.until(lambda _: uplink.unreported is None)
                assert not kept.is_open
                assert "the hub is back after" in capsys.readouterr().err

    run_fast(story())
    assert (tmp_path / "story").read_text().count("\n") >= 2


def test_order_that_a_relay_adds_is_not_obeyed_and_the_agent_connects_again(
    capsys: pytest.CaptureFixture[str],
):
    async def story() -> None:
        node = Node()
        async with serving() as hub, relay(hub.port) as between:
            uplink = Near(node, between.port)
            async with talking(node, uplink):
                await hub.until(lambda s: s.ranks)
                first = uplink._session
                between.adds = wire.encode(wire.Do(Order(1, Act.STOP, code=82)))
                await hub.until(lambda _: uplink._session not in (None, first))
                seen = len(hub.snapshots)
                await hub.until(lambda _: len(hub.snapshots) > seen + 1)
        assert node.orders == []

    run_fast(story())
    said = capsys.readouterr().err
    assert said.count("gave up a connection to the hub: a message was changed") == 1


@pytest.mark.parametrize("lease", [0.0, 1.0])
def test_node_that_is_cut_off_for_longer_than_its_lease_leaves(
    lease: float, capsys: pytest.CaptureFixture[str]
):
    async def story() -> None:
        node = Node()
        async with serving() as hub, relay(hub.port) as between:
            hub.hub.lease = lease
            uplink = Near(node, between.port)
            async with talking(node, uplink):
                await hub.until(lambda s: s.ranks)
                assert not node.left
                between.passes.clear()
                await hub.until(lambda s: s.nodes[0].silent_for > 4.5)
                assert bool(node.left) is bool(lease)
                between.passes.set()
                await hub.until(lambda s: s.nodes[0].cut_off_for)
                await hub.until(lambda _: uplink.unreported is None)

    run_fast(story())
    assert "has been out of reach" in capsys.readouterr().err


def test_node_that_has_ended_does_not_call_its_wait_for_a_last_word_a_cut(
    capsys: pytest.CaptureFixture[str],
):
    async def story() -> None:
        node = Node()
        async with serving() as hub:
            other = await connect(hub.port, "b/1")
            await other.send("b/1")
            uplink = Near(node, hub.port)
            async with talking(node, uplink):
                await hub.until(lambda s: s.ranks)
                node.ended = True
                await hub.until(lambda _: uplink.done.is_set() and uplink._session is None)
            await other.close()

    run_fast(story())
    assert "out of reach" not in capsys.readouterr().err


def test_order_of_the_hub_reaches_the_agent_with_the_addresses_of_all_nodes():
    async def story() -> None:
        node = Node()
        async with serving() as hub:
            uplink = Near(node, hub.port)
            async with talking(node, uplink):
                await hub.until(lambda s: s.ranks)
                hub.hub.order(Order(1, Act.STOP, code=82))
                await hub.until(lambda _: node.orders)
        assert node.orders == [Order(1, Act.STOP, code=82, addresses=("127.0.0.1",))]

    run_fast(story())


def test_hub_that_is_started_again_was_not_out_of_reach():
    async def story() -> None:
        node, kept = Node(), CutOffLog(None)
        async with serving() as hub:
            uplink = Near(node, hub.port, kept)
            async with talking(node, uplink):
                await hub.until(lambda s: s.ranks)
                hub.task.cancel()
                for writer in list(hub.hub._sessions.values()):
                    writer.close()
                await asyncio.sleep(3.2)
                assert not kept.is_open

    run_fast(story())


def test_hub_of_one_node_opens_nothing():
    async def story() -> None:
        node = Node()
        async with serving() as hub:
            uplink = Uplink(node, ("127.0.0.1", hub.port), TOKEN, clock=clocks.current())
            async with talking(node, uplink):
                await hub.until(lambda s: s.ranks)
                assert uplink.prober._transport is None
                assert hub.hub._peers == {}

    run_fast(story())


def test_order_that_follows_the_end_of_a_node_is_still_received():
    async def story() -> None:
        node = Node()
        async with serving() as hub:
            uplink = Near(node, hub.port)
            async with talking(node, uplink):
                await hub.until(lambda s: s.ranks)
                node.ended = True
                await hub.until(lambda s: s.nodes[0].ended)
                hub.hub.order(Order(1, Act.STOP, code=80))
                await uplink.done.wait()
        assert [order.code for order in node.orders] == [80]

    run_fast(story())


def test_hub_that_accepts_but_never_speaks_does_not_keep_an_agent_that_has_ended():
    async def story() -> None:
        node = Node()
        node.ended = True
        accepted: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, w: accepted.append(w), "127.0.0.1", 0)
        async with server:
            uplink = Near(node, server.sockets[0].getsockname()[1])
            async with talking(node, uplink):
                await asyncio.wait_for(uplink.done.wait(), 15)
            for writer in accepted:
                writer.close()

    run_fast(story())


def test_question_that_the_hub_does_not_answer_costs_the_time_it_was_given():
    async def story() -> None:
        node = Node()
        async with serving() as hub:
            hub.hub._answer = lambda _: wire.Answer(0, "{}")  # type: ignore[method-assign]
            uplink = Near(node, hub.port)
            async with talking(node, uplink):
                await hub.until(lambda s: s.ranks)
                began = clocks.current().monotonic()
                assert await uplink.ask('{"ask": "ranks"}', 1.0) is None
                assert 0.9 < clocks.current().monotonic() - began < 1.5

    run_fast(story())
