"""The hub: who is let in, what a broken peer can do, what a lost agent means."""

import asyncio
import socket
import struct
from typing import Any

import msgspec
import pytest
from msgspec import structs

from hubs import TOKEN, Peer, connect, run, run_fast, serving
from unstuck.collect import wire
from unstuck.collect.hub import admission
from unstuck.collect.session import introduce
from unstuck.model.host import PeerLink
from unstuck.model.liveness import FRAME_OVERDUE
from unstuck.model.rank import Process, ProcessState, RankState
from unstuck.model.requests import EvidenceKind, EvidenceRequest

RANK = RankState(0, "a", Process(7), attempt="x", world_size=1)
ZERO = structs.replace(RANK, phase="run")
ONE = structs.replace(RANK, rank=1, phase="run")
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


def hello(challenge: wire.Message, node: str = "a/1", **changes: Any) -> wire.Hello:
    """Return the greeting of an agent that has the token."""
    assert isinstance(challenge, wire.Challenge)
    greeting = wire.Hello(node, "a", wire.nonce(), b"", **changes)
    proof = wire.proof(TOKEN, "agent", challenge, greeting)
    return structs.replace(greeting, proof=proof)


def test_proof_cannot_be_used_twice():
    async def story() -> None:
        async with serving() as hub:
            first = await connect(hub.port)
            stolen = hello(await first.receive())
            thief = await connect(hub.port)
            await thief.receive()
            thief.writer.write(wire.encode(stolen))
            assert isinstance(await thief.receive(), wire.Refused)
            await first.close()
            await thief.close()

    run(story())


@pytest.mark.parametrize("change", [{"host": "b"}, {"port": 7}, {"node": "b/1"}])
def test_proof_covers_all_that_an_agent_says_of_itself(change: dict[str, Any]):
    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port)
            greeting = hello(await peer.receive())
            peer.writer.write(wire.encode(structs.replace(greeting, **change)))
            assert isinstance(await peer.receive(), wire.Refused)
            await peer.close()

    run(story())


def test_agent_of_the_previous_version_is_refused_and_learns_why():
    """Byte for byte what an agent with protocol 2 sends, and what it can read."""

    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port)
            await peer.receive()
            old = {"type": "hello", "node": "a/1", "host": "a", "nonce": b"n" * 16,
                   "proof": b"p" * 32, "protocol": 2, "port": 0}  # fmt: skip
            body = msgspec.msgpack.encode(old)
            peer.writer.write(struct.pack(">I", len(body)) + body)
            (length,) = struct.unpack(">I", await peer.reader.readexactly(4))
            answer = msgspec.msgpack.decode(await peer.reader.readexactly(length))
            assert answer == {
                "type": "refused",
                "reason": "another version of unstuck: install the same one on every node",
            }
            assert hub.snapshots == []
            await peer.close()

    run(story())


def test_agent_says_that_the_hub_is_of_another_version():
    async def old_hub(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(wire.encode(wire.Challenge(wire.nonce(), 2)))
        await writer.drain()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(old_hub, "127.0.0.1", 0)
        async with server:
            with pytest.raises(PermissionError, match="the hub runs another version of unstuck"):
                await connect(server.sockets[0].getsockname()[1], "a/1")

    run(story())


def test_name_of_a_living_agent_is_not_taken_over():
    async def story() -> None:
        async with serving() as hub:
            owner = await connect(hub.port, "a/1")
            await owner.send("a/1", RANK)
            with pytest.raises(ConnectionError, match="another agent is connected as a/1"):
                await connect(hub.port, "a/1")
            hub.hub.say("still yours", but="")
            assert await owner.receive() == wire.Say("still yours")
            await asyncio.sleep(FRAME_OVERDUE + 0.5)
            heir = await connect(hub.port, "a/1")
            hub.hub.say("for the agent that is there", but="")
            assert await heir.receive() == wire.Say("for the agent that is there")
            with pytest.raises(ConnectionError):
                await owner.receive()
            await owner.close()
            await heir.close()

    run_fast(story())


def test_stranger_cannot_announce_a_long_message():
    async def story() -> None:
        async with serving() as hub:
            stranger = await connect(hub.port)
            await stranger.receive()
            stranger.writer.write(struct.pack(">I", wire.GREETING_BYTES + 1))
            assert await asyncio.wait_for(stranger.reader.read(), 10) == b""
            await stranger.close()

    run(story())


def test_strangers_that_say_nothing_give_way_to_those_who_come_later(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(admission, "MOST_UNPROVED", 20)

    async def story() -> None:
        async with serving() as hub:
            strangers = [await connect(hub.port) for _ in range(21)]
            await strangers[0].receive()
            assert await asyncio.wait_for(strangers[0].reader.read(), 10) == b""
            peer = await connect(hub.port, "a/1")
            await peer.send("a/1", RANK)
            await hub.until(lambda s: s.ranks)
            for one in (*strangers, peer):
                await one.close()

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

    run_fast(story())


def test_agent_that_came_back_is_not_lost_by_its_old_connection():
    async def story() -> None:
        async with serving() as hub:
            old = await connect(hub.port, "a/1")
            await old.send("a/1", RANK)
            await asyncio.sleep(FRAME_OVERDUE)
            fresh = await connect(hub.port, "a/1")
            await fresh.send("a/1", RANK, RankState(1, "a", Process(8), attempt="x"))
            await hub.until(lambda s: len(s.ranks) == 2)
            await old.close()
            seen = len(hub.snapshots)
            await hub.until(lambda _: len(hub.snapshots) > seen + 1)
            assert not hub.snapshots[-1].nodes[0].disconnected
            await fresh.close()

    run_fast(story())


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

    run_fast(story())


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
            gone = Process(7, ProcessState.GONE, gone_for=0.1, exit_code=code)
            await peer.send("a/1", RankState(0, "a", gone, attempt="x"), ended=True)
            peer.say(wire.Bye())
            began = asyncio.get_running_loop().time()
            await asyncio.wait_for(hub.task, 10)
            assert (asyncio.get_running_loop().time() - began >= 0.9) == bool(code)
            assert hub.snapshots
            await peer.close()

    run_fast(story())


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


def test_agents_are_told_whom_to_ask_and_when_that_changes():
    async def story() -> None:
        async with serving() as hub:
            one = await connect(hub.port, "a/1", probes=1001)
            two = await connect(hub.port, "b/1", probes=1002)
            here = "127.0.0.1"
            assert await one.receive() == wire.Peers((wire.Peer("b/1", "b", here, 1002),))
            assert await two.receive() == wire.Peers((wire.Peer("a/1", "a", here, 1001),))
            await two.close()
            assert await one.receive() == wire.Peers(())
            again = await connect(hub.port, "b/1", probes=1003)
            assert await one.receive() == wire.Peers((wire.Peer("b/1", "b", here, 1003),))
            assert await again.receive() == wire.Peers((wire.Peer("a/1", "a", here, 1001),))
            await one.close()
            await again.close()

    run_fast(story())


def test_agent_whose_connection_closed_is_asked_until_nobody_hears_it():
    def hears(node: str) -> tuple[PeerLink, ...]:
        return (PeerLink(node, node[0], 0.0, 9.0, 0.001),)

    async def story() -> None:
        async with serving() as hub:
            one = await connect(hub.port, "a/1", probes=1001)
            two = await connect(hub.port, "b/1", probes=1002)
            assert isinstance(await one.receive(), wire.Peers)
            await two.send("b/1", ONE, links=hears("a/1"))
            await hub.until(lambda s: s.ranks)
            await two.close()
            await asyncio.sleep(0.5)
            await one.send("a/1", ZERO, links=hears("b/1"))
            assert isinstance(await one.receive(), wire.Heard)
            late = await hub.until(lambda s: s.nodes[-1].silent_for > 2.5)
            assert [node.disconnected for node in late.nodes] == [False, False]
            assert list(hub.hub._peers) == ["a/1", "b/1"]
            again = await connect(hub.port, "b/1", probes=1003)
            await again.send("b/1", ONE, links=hears("a/1"))
            await hub.until(lambda s: s.nodes[-1].silent_for < 1)
            await again.close()
            await hub.until(lambda s: s.nodes[-1].disconnected)
            assert list(hub.hub._peers) == ["a/1"]
            await one.close()

    run_fast(story())


def test_frames_of_agents_that_probe_are_confirmed_and_no_others():
    async def story() -> None:
        async with serving() as hub:
            alone = await connect(hub.port, "a/1")
            await alone.send("a/1", RANK)
            await hub.until(lambda s: s.ranks)
            hub.hub.say("word", but="")
            assert await alone.receive() == wire.Say("word")
            probing = await connect(hub.port, "b/1", probes=1002)
            await probing.send("b/1")
            assert await probing.receive() == wire.Heard(1)
            await alone.close()
            await probing.close()

    run(story())


def test_kernel_of_a_silent_agent_that_lives_answers():
    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port, "a/1", probes=1001)
            await peer.send("a/1", RANK)
            await hub.until(lambda s: s.ranks)
            assert not hub.snapshots[-1].nodes[0].kernel_answers
            snapshot = await hub.until(lambda s: s.nodes[0].kernel_answers)
            assert 1.25 < snapshot.nodes[0].silent_for < 4
            await peer.send("a/1", RANK)
            await hub.until(lambda s: not s.nodes[0].kernel_answers)
            await peer.close()

    run_fast(story())


def test_who_falls_silent_and_is_back_is_told_to_all_nodes():
    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port, "a/1")
            await peer.send("a/1", ZERO, ONE)
            assert await peer.hear("roster") == {"a": [0, 1]}
            stopped = structs.replace(
                ONE, process=Process(2, ProcessState.STOPPED), stalled_for=1.0
            )
            await peer.send("a/1", ZERO, stopped)
            silent = await peer.hear("peers")
            assert (list(silent), silent["1"]["state"]) == (["1"], "stopped")
            late = await connect(hub.port, "b/1")
            assert list(await late.hear("peers")) == ["1"]
            await peer.send("a/1", ZERO, ONE)
            assert await peer.hear("peers") == {}
            await late.close()
            await peer.close()

    run(story())


def test_deaths_that_are_wanted_are_not_told():
    async def story() -> None:
        async with serving() as hub:
            peer = await connect(hub.port, "a/1")
            gone = structs.replace(
                ZERO, process=Process(2, ProcessState.GONE, gone_for=0.1, exit_code=-15)
            )
            await peer.send("a/1", gone, stopping=True)
            await hub.until(lambda s: s.nodes[0].stopping)
            hub.hub.publish("end", "{}", holds=False)
            assert await peer.hear("end") == {}
            assert hub.hub._liveness == ("{}", "{}")
            await peer.close()

    run(story())
