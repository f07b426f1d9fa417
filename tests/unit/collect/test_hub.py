"""The hub: who is let in, what a broken peer can do, what a lost agent means."""

import asyncio
import socket
import struct

import pytest

from hubs import Peer, connect, run, serving
from unstuck.collect import wire
from unstuck.collect.agent import introduce
from unstuck.model.evidence import EvidenceKind, EvidenceRequest
from unstuck.model.rank import Process, RankState

RANK = RankState(0, "a", Process(7), attempt="x", world_size=1)
STACK = EvidenceRequest(EvidenceKind.STACK, (0,))


def test_agent_with_the_token_is_heard():
    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port, "a/1")
            await peer.send("a/1", RANK)
            snapshot = await hub.until(lambda s: s.ranks)
            assert snapshot.ranks == (RANK,)
            assert [node.host for node in snapshot.nodes] == ["a"]
            await peer.close()

    run(story())


def test_wrong_token_is_refused_with_the_way_out():
    async def story() -> None:
        async with serving() as hub:
            with pytest.raises(PermissionError, match="set the same UNSTUCK_TOKEN on every node"):
                await connect(hub.port, "a/1", token="another")
            assert hub.snapshots == []

    run(story())


def test_hub_without_the_token_is_refused_by_the_agent():
    async def impostor(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(wire.encode(wire.Challenge(wire.nonce())))
        writer.write(wire.encode(wire.Welcome(b"no proof")))
        await writer.drain()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        async with server:
            with pytest.raises(PermissionError, match="could not prove"):
                await connect(server.sockets[0].getsockname()[1], "a/1")

    run(story())


def test_proof_cannot_be_used_twice():
    async def story() -> None:
        async with serving() as hub:
            first = await connect(hub.port)
            challenge = await first.receive()
            assert isinstance(challenge, wire.Challenge)
            mine = wire.nonce()
            stolen = wire.proof("a secret of the tests", "agent", challenge.nonce, mine, "a/1")
            thief = await connect(hub.port)
            await thief.receive()
            thief.writer.write(wire.encode(wire.Hello("a/1", "a", mine, stolen)))
            assert isinstance(await thief.receive(), wire.Refused)
            await first.close()
            await thief.close()

    run(story())


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 0xFFFFFFFF) + b"x" * 100,
        struct.pack(">I", 18) + b"\x82\xa4type\xa3say\xa4text\xa2\xff\xfe",
        wire.encode(wire.Bye()),
    ],
)
@pytest.mark.parametrize("admitted", [False, True])
def test_broken_peer_hurts_only_itself(garbage: bytes, admitted: bool):
    async def story() -> None:
        async with serving() as hub:
            good = await connect(hub.port, "a/1")
            broken = await connect(hub.port, "b/1" if admitted else "")
            broken.writer.write(garbage)
            while await broken.reader.read(1000):
                pass
            await good.send("a/1", RANK)
            await hub.until(lambda s: s.ranks)
            await broken.close()
            await good.close()

    run(story())


def test_silent_strangers_do_not_keep_others_out():
    async def story() -> None:
        async with serving() as hub:
            strangers = [await connect(hub.port) for _ in range(20)]
            peer = await connect(hub.port, "a/1")
            await peer.send("a/1", RANK)
            await hub.until(lambda s: s.ranks)
            for one in (*strangers, peer):
                await one.close()

    run(story())


def test_node_cannot_speak_for_another():
    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port, "a/1")
            await peer.send("b/1", RANK)
            await peer.send("a/1", RANK)
            snapshot = await hub.until(lambda s: s.ranks)
            assert [node.node for node in snapshot.nodes] == ["a/1"]
            await peer.close()

    run(story())


def test_closed_connection_is_a_dead_agent_and_silence_is_not():
    async def story() -> None:
        async with serving() as hub:
            one, two = await connect(hub.port, "a/1"), await connect(hub.port, "b/1")
            await one.send("a/1", RANK)
            await two.send("b/1", RankState(1, "b", Process(8), attempt="x"))
            await hub.until(lambda s: len(s.ranks) == 2)
            await one.close()
            snapshot = await hub.until(lambda s: s.nodes[0].disconnected)

            assert [rank.unobserved for rank in snapshot.ranks] == ["its agent died", ""]
            assert not snapshot.nodes[1].disconnected
            seen = len(hub.snapshots)
            await hub.until(lambda s: len(hub.snapshots) > seen and s.nodes[1].silent_for > 0.3)
            assert not hub.snapshots[-1].nodes[1].disconnected
            await two.close()

    run(story())


def test_agent_that_came_back_is_not_lost_by_its_old_connection():
    async def story() -> None:
        async with serving() as hub:
            old = await connect(hub.port, "a/1")
            await old.send("a/1", RANK)
            fresh = await connect(hub.port, "a/1")
            await fresh.send("a/1", RANK, RankState(1, "a", Process(8), attempt="x"))
            await hub.until(lambda s: len(s.ranks) == 2)
            await old.close()
            seen = len(hub.snapshots)
            await hub.until(lambda _: len(hub.snapshots) > seen + 1)
            assert not hub.snapshots[-1].nodes[0].disconnected
            await fresh.close()

    run(story())


def test_hub_outlives_its_only_agent():
    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port, "a/1")
            await peer.send("a/1", RANK)
            await hub.until(lambda s: s.ranks)
            await peer.close()
            await hub.until(lambda s: s.nodes[0].disconnected)
            again = await connect(hub.port, "a/1")
            await again.send("a/1", RANK)
            await hub.until(lambda s: not s.nodes[0].disconnected)
            await again.close()

    run(story())


def test_restarted_hub_is_whole_after_one_frame():
    async def story() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        async with serving(listener.dup()) as first:
            peer = await connect(first.port, "a/1")
            await peer.send("a/1", RANK)
            before = await first.until(lambda s: s.ranks)
            await peer.close()
        async with serving(listener) as second:
            peer = await connect(second.port, "a/1")
            await peer.send("a/1", RANK)
            after = await second.until(lambda s: s.ranks)
            assert (after.ranks, after.world_size) == (before.ranks, before.world_size)
            await peer.close()

    run(story())


def test_evidence_is_asked_for_once_a_second_at_most():
    async def story() -> None:
        async with serving() as hub:
            hub.wants = (STACK,)
            peer = await connect(hub.port, "a/1")
            loop = asyncio.get_running_loop()
            began = loop.time()
            for _ in range(10):
                await peer.send("a/1", RANK)
            assert await peer.receive() == wire.Ask((STACK,))
            assert await peer.receive() == wire.Ask((STACK,))
            assert loop.time() - began >= 1.0
            await peer.close()

    run(story())


def test_people_at_the_other_nodes_are_told():
    async def story() -> None:
        async with serving() as hub:
            here, there = await connect(hub.port, "a/1"), await connect(hub.port, "b/1")
            await here.send("a/1", RANK)
            await there.send("b/1", RankState(1, "b", Process(8), attempt="x"))
            await hub.until(lambda s: len(s.nodes) == 2)
            hub.hub.say("rank 0 is asleep", but="a")
            hub.hub.say("for a", but="b")
            assert await there.receive() == wire.Say("rank 0 is asleep")
            assert await here.receive() == wire.Say("for a")
            await here.close()
            await there.close()

    run(story())


@pytest.mark.parametrize("code", [0, 1])
def test_hub_ends_with_the_job_and_looks_longer_when_it_ended_badly(code: int):
    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port, "a/1")
            gone = Process(7, "gone", gone_for=0.1, exit_code=code)
            await peer.send("a/1", RankState(0, "a", gone, attempt="x"), ended=True)
            peer.writer.write(wire.encode(wire.Bye()))
            began = asyncio.get_running_loop().time()
            await asyncio.wait_for(hub.task, 10)
            assert (asyncio.get_running_loop().time() - began >= 0.9) == bool(code)
            assert hub.snapshots
            await peer.close()

    run(story())


def test_hub_that_ends_while_peers_are_connected_says_nothing():
    async def story() -> None:
        async with serving() as hub:
            peer, stranger = await connect(hub.port, "a/1"), await connect(hub.port)
            await peer.send("a/1", RANK)
            await hub.until(lambda s: s.ranks)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await peer.close()
        await stranger.close()

    run(story())


def test_peer_that_is_no_hub_is_named():
    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port)
            await peer.receive()
            other = Peer(*await asyncio.open_connection("127.0.0.1", hub.port))
            other.reader.feed_data(wire.encode(wire.Bye()))
            with pytest.raises(ConnectionError, match="not an unstuck hub"):
                await introduce(other.reader, other.writer, "t", "a/1", "a")
            await peer.close()
            await other.close()

    run(story())
