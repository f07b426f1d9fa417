"""Sections around functions, generators and loaders."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import unstuck
from unstuck.observe.probe.page import PageReader

SHORT = 0.05
LONG = 20.0
"""A wait that nothing but the deadline ends: no test takes so long."""

pytestmark = pytest.mark.usefixtures("fresh_sections")


def test_decorated_function():
    @unstuck.section("spin", timeout=SHORT, on_timeout="raise")
    def spin(depth: int) -> int:
        """Say something."""
        if depth == 0:
            return 7
        return spin(depth - 1)

    assert (spin(3), spin.__name__, spin.__doc__) == (7, "spin", "Say something.")

    @unstuck.section("sleep", timeout=SHORT, on_timeout="raise")
    def sleep() -> None:
        time.sleep(LONG)

    with pytest.raises(unstuck.SectionTimeout, match="'sleep'"):
        sleep()


def test_decorated_coroutine():
    @unstuck.section("fetch", timeout=SHORT, on_timeout="raise")
    async def fetch() -> None:
        await asyncio.sleep(LONG)

    with pytest.raises(unstuck.SectionTimeout, match="'fetch'"):
        asyncio.run(fetch())


def test_decorated_generator_is_limited_per_step_and_gets_what_is_sent():
    @unstuck.section("count", timeout=LONG)
    def count() -> Any:
        got: list[Any] = []
        with contextlib.suppress(KeyError):
            got.append((yield 1))
        try:
            yield 2
        except KeyError:
            yield got
        return "end"

    generator = count()
    assert next(generator) == 1
    assert generator.send("x") == 2
    assert generator.throw(KeyError()) == ["x"]
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value == "end"
    second = count()
    next(second)
    second.close()


def test_decorated_asynchronous_generator():
    @unstuck.section("stream", timeout=SHORT, on_timeout="raise")
    async def stream() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(LONG)

    async def story() -> list[int]:
        got: list[int] = []
        with contextlib.suppress(unstuck.SectionTimeout):
            async for item in stream():
                got.append(item)  # noqa: PERF401
            got.append(0)
        return got

    assert asyncio.run(story()) == [1]


def test_watched_loader_is_limited_per_item_and_may_be_used_again(page: PageReader):
    seen: list[tuple[int, str]] = []
    loader = unstuck.watched([1, 2], timeout=SHORT, on_timeout="raise")
    for _ in range(2):
        for item in loader:
            seen.append((item, page.read().section))
            time.sleep(SHORT)
    assert (len(loader), seen) == (2, [(1, ""), (2, "")] * 2)

    def slow() -> Iterator[int]:
        yield 1
        time.sleep(LONG)

    got: list[int] = []
    with pytest.raises(unstuck.SectionTimeout, match="'next of generator'"):
        got.extend(unstuck.watched(slow(), timeout=SHORT, on_timeout="raise"))
    assert got == [1]
