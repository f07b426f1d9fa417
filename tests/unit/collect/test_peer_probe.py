"""Real datagrams on the loopback interface: who is heard, who answers, who does not count."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

import clocks
from hubs import TOKEN, run_fast
from unstuck.collect.peer_probe import FEW, Probe, Prober, choose, seal, unseal
from unstuck.collect.wire import Peer
from unstuck.model.host import PeerLink

HERE = "127.0.0.1"


async def until(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not look():  # noqa: ASYNC110 - datagrams come without an event to wait for
            await asyncio.sleep(0.02)


class Pair:
    """Two probers that know each other."""

    def __init__(self, tokens: tuple[str, str]) -> None:
        clock = clocks.current()
        self.a, self.b = Prober("a/1", tokens[0], clock), Prober("b/1", tokens[1], clock)

    async def open(self) -> None:
        ports = [await self.a.open(HERE), await self.b.open(HERE)]
        self.a.know([Peer("b/1", "b", HERE, ports[1])])
        self.b.know([Peer("a/1", "a", HERE, ports[0])])

    async def until(self, look: Callable[[PeerLink, PeerLink], bool]) -> None:
        await until(lambda: look(*self.a.links(), *self.b.links()))


@asynccontextmanager
async def pair(one: str = TOKEN, other: str = TOKEN) -> AsyncGenerator[Pair, None]:
    made = Pair((one, other))
    await made.open()
    try:
        yield made
    finally:
        made.a.close()
        made.b.close()


def test_peers_hear_and_answer_each_other():
    async def story() -> None:
        async with pair() as both:
            await both.until(lambda a, b: a.round_trip is not None and b.round_trip is not None)
            (link,) = both.a.links()
            assert (link.node, link.host) == ("b/1", "b")
            assert link.heard_for is not None
            assert link.heard_for < 1
            assert link.answered_for is not None
            assert link.round_trip is not None
            assert 0 < link.round_trip < 1

    run_fast(story())


def test_peer_with_another_token_is_neither_heard_nor_answered():
    async def story() -> None:
        async with pair(other="another") as both:
            await asyncio.sleep(0.8)
            assert [link.heard_for for link in (*both.a.links(), *both.b.links())] == [None, None]

    run_fast(story())


def test_peer_that_dies_is_heard_no_more_but_was_once():
    async def story() -> None:
        async with pair() as both:
            await both.until(lambda a, _: a.answered_for is not None)
            both.b.close()
            await both.until(lambda a, _: (a.heard_for or 0) > 0.9)
            (link,) = both.a.links()
            assert (link.answered_for or 0) > 0.9

    run_fast(story())


def test_one_way_loss_is_heard_but_unanswered_on_one_side_and_silence_on_the_other():
    async def story() -> None:
        async with pair() as both:
            await both.until(lambda a, b: bool(a.round_trip and b.round_trip))
            assert both.b._transport is not None
            lost = socket.create_server((HERE, 0))
            both.b._links["a/1"].peer = Peer("a/1", "a", HERE, lost.getsockname()[1])
            await both.until(lambda a, _: (a.heard_for or 0) > 1.0)
            (b_of_a,) = both.b.links()
            lost.close()

            assert (b_of_a.heard_for or 0) < 0.7
            assert (b_of_a.answered_for or 0) > 0.7

    run_fast(story())


def test_peer_that_was_never_there_is_never_heard():
    async def story() -> None:
        lonely = Prober("a/1", TOKEN, clocks.current())
        assert await lonely.open(HERE)
        with socket.create_server((HERE, 0)) as nobody:
            lonely.know([Peer("b/1", "b", HERE, nobody.getsockname()[1])])
            await asyncio.sleep(0.7)
            assert lonely.links() == (PeerLink("b/1", "b"),)
        lonely.close()

    run_fast(story())


def test_replayed_misaddressed_and_unknown_datagrams_do_not_count():
    async def story() -> None:
        prober = Prober("a/1", TOKEN, clocks.current())
        port = await prober.open(HERE)
        prober.know([Peer("b/1", "b", HERE, 9)])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            first = seal(Probe("b/1", "a/1", 7), TOKEN)
            for data in (
                seal(Probe("b/1", "c/1", 1), TOKEN),
                seal(Probe("c/1", "a/1", 2), TOKEN),
                seal(Probe("b/1", "a/1", 3), "another"),
                first[:-1],
                b"",
                b"x" * 70_00,
            ):
                peer.sendto(data, (HERE, port))
            await asyncio.sleep(0.1)
            assert prober.links()[0].heard_for is None

            peer.sendto(first, (HERE, port))
            await until(lambda: prober.links()[0].heard_for is not None)
            await asyncio.sleep(0.3)
            peer.sendto(first, (HERE, port))
            await asyncio.sleep(0.1)
            assert (prober.links()[0].heard_for or 0) >= 0.35
        prober.close()

    run_fast(story())


def test_time_in_which_this_agent_did_not_run_is_not_held_against_the_peers():
    async def story() -> None:
        async with pair() as both:
            await both.until(lambda a, _: a.answered_for is not None)
            both.b.close()
            before = both.a.links()[0].heard_for or 0
            clocks.skip(1.5)
            assert (both.a.links()[0].heard_for or 0) < before + 0.8
            await asyncio.sleep(0.1)
            assert (both.a.links()[0].heard_for or 0) < before + 0.9

    run_fast(story())


def test_what_is_known_of_peers_that_stay_is_kept():
    async def story() -> None:
        async with pair() as both:
            await both.until(lambda a, _: a.answered_for is not None)
            stays = both.a._links["b/1"].peer
            both.a.know([stays, Peer("c/1", "c", HERE, 9)])
            assert [one.heard_for is None for one in both.a.links()] == [False, True]
            both.a.know([Peer("b/1", "b", HERE, 9)])
            assert [one.heard_for for one in both.a.links()] == [None]

    run_fast(story())


def test_nothing_is_open_before_it_is_asked_for_and_nothing_stays_open():
    async def story() -> None:
        prober = Prober("a/1", TOKEN, clocks.current())
        assert prober._transport is None
        port = await prober.open(HERE)
        assert await prober.open(HERE) == port
        prober.close()
        prober.close()
        await asyncio.sleep(0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind((HERE, port))

    run_fast(story())


def test_address_that_is_not_ours_opens_nothing():
    async def story() -> None:
        assert await Prober("a/1", TOKEN, clocks.current()).open("192.0.2.1") == 0

    run_fast(story())


def test_datagram_is_small():
    name = "a-rather-long-host-name.cluster.example/1234567"
    assert len(seal(Probe(name, name, 2**62, 2**62), TOKEN)) < 200


@pytest.mark.parametrize("data", [b"", b"x" * 15, b"x" * 16, b"x" * 500])
def test_noise_is_no_probe(data: bytes):
    assert unseal(data, TOKEN) is None


def peers(count: int, per_host: int = 1) -> list[Peer]:
    return [Peer(f"h{i // per_host}/{i}", f"h{i // per_host}", HERE, i + 1) for i in range(count)]


def test_in_a_small_job_everybody_asks_everybody_else():
    chosen = choose(peers(4))
    assert {len(found) for found in chosen.values()} == {3}
    assert all(node not in [p.node for p in found] for node, found in chosen.items())


def test_one_node_has_nobody_to_ask():
    assert choose(peers(1)) == {"h0/0": ()}
    assert set(choose(peers(4, per_host=4)).values()) == {()}


@pytest.mark.parametrize("count", [FEW + 1, 100])
def test_in_a_big_job_each_asks_four_that_ask_it_too(count: int):
    chosen = choose(peers(count))
    asked = {(node, peer.node) for node, found in chosen.items() for peer in found}
    assert {len(found) for found in chosen.values()} == {4}
    assert asked == {(b, a) for a, b in asked}


def test_an_agent_that_joins_a_big_job_changes_few():
    before, after = choose(peers(100)), choose(peers(101))
    assert sum(before[node] != after[node] for node in before) == 4
