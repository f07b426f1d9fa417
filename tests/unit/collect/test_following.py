"""Follow a job from another process: all that the hub has, at no cost to it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable

from hubs import TOKEN, Served, connect, run, serving
from scenes import one_sleeps, verdict_of
from unstuck.collect.following import Follower
from unstuck.explain.report import machine


@contextlib.asynccontextmanager
async def following(port: int, token: str = TOKEN) -> AsyncGenerator[Follower, None]:
    follower = Follower(("127.0.0.1", port), token)
    task = asyncio.create_task(follower.follow())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(look: Callable[[], object], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not look():  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.02)


def test_a_follower_sees_the_job_and_the_verdict():
    async def story() -> None:
        scene = one_sleeps()
        async with serving() as served, following(served.port) as follower:
            await until(lambda: follower.connected)
            node = await connect(served.port, "host0/1")
            await node.send("host0/1", *scene.states.values())
            await until(lambda: len(follower.snapshot().ranks) == 4)
            await until(lambda: follower.snapshot() in served.snapshots)

            served.hub.publish("verdicts", machine.line(verdict_of(scene)), holds=True)
            await until(lambda: follower.verdict is not None)
            await node.close()

    run(story())


def test_one_that_comes_late_gets_what_holds():
    async def story() -> None:
        scene = one_sleeps()
        async with serving() as served:
            served.hub.publish("verdicts", machine.line(verdict_of(scene)), holds=True)
            async with following(served.port) as follower:
                await until(lambda: follower.verdict is not None)

    run(story())


def test_it_comes_back_by_itself_and_meanwhile_shows_what_it_last_saw():
    async def story() -> None:
        scene, listener = one_sleeps(), socket.create_server(("127.0.0.1", 0))
        again = listener.dup()
        async with serving(listener) as served, following(served.port) as follower:
            node = await connect(served.port, "host0/1")
            await node.send("host0/1", *scene.states.values())
            await until(lambda: len(follower.snapshot().ranks) == 4)
            await _kill(served)
            await until(lambda: not follower.connected)
            async with serving(again):
                await until(lambda: follower.connected)
                assert len(follower.snapshot().ranks) == 4
            await node.close()

    run(story())


async def _kill(served: Served) -> None:
    served.task.cancel()
    for session in tuple(served.hub.followers._sessions):
        session.abort()
    await asyncio.gather(served.task, return_exceptions=True)


def test_a_wrong_token_follows_nothing():
    async def story() -> None:
        async with serving() as served, following(served.port, "wrong") as follower:
            await asyncio.sleep(0.3)
            assert not follower.connected
            assert not served.hub.followers._sessions

    run(story())


def test_large_groups_are_asked_for_and_read():
    async def story() -> None:
        scene = one_sleeps(300)
        async with serving() as served, following(served.port) as follower:
            node = await connect(served.port, "host0/1")
            await node.send("host0/1", *scene.states.values())
            await until(lambda: len(follower.snapshot().ranks) == 300)
            assert follower.snapshot().ranks[7].groups[0].ranks == tuple(range(300))
            await node.close()

    run(story())
