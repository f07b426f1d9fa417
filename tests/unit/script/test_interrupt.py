"""SectionTimeout is raised in the thread that is in the section, and only there."""

import asyncio
import contextlib
import itertools
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import unstuck
from unstuck.observe.probe.page import PageReader
from unstuck.observe.probe.this_process import current

SHORT = 0.05
LONG = 20.0
"""A wait that nothing but the deadline ends: no test takes so long."""

pytestmark = pytest.mark.usefixtures("fresh_sections")


@pytest.mark.parametrize(
    "wait",
    [
        lambda: time.sleep(LONG),
        lambda: threading.Event().wait(LONG),
        lambda: queue.Queue[int]().get(timeout=LONG),
        lambda: subprocess.run(["sleep", str(LONG)], check=False),
        lambda: os.read(os.pipe()[0], 1),
    ],
    ids=["sleep", "lock", "queue", "child", "pipe"],
)
def test_raise_leaves_waits_of_the_main_thread_at_once(wait: Any):
    began = time.monotonic()
    with (
        pytest.raises(unstuck.SectionTimeout) as caught,
        unstuck.section("load", timeout=0.1, on_timeout="raise"),
    ):
        wait()
    assert time.monotonic() - began < 5
    assert (caught.value.name, caught.value.timeout) == ("load", pytest.approx(0.1))
    assert isinstance(caught.value, TimeoutError)


def test_raise_leaves_a_loop_of_the_main_thread():
    def spin() -> None:
        with unstuck.section("spin", timeout=SHORT, on_timeout="raise"):
            while True:
                pass

    with pytest.raises(unstuck.SectionTimeout):
        spin()


def test_raise_in_another_thread_hits_that_thread_only():
    caught: list[BaseException] = []

    def work() -> None:
        try:
            with unstuck.section("work", timeout=SHORT, on_timeout="raise"):
                while True:
                    time.sleep(0.001)
        except unstuck.SectionTimeout as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert [str(error)[:38] for error in caught] == ["section 'work' has taken 0.05 s, its t"]


def test_section_that_cannot_be_left_raises_when_it_ends():
    def gone(_: Any) -> None:
        time.sleep(3 * SHORT)  # one call, in another thread: nothing interrupts it

    thread_error: list[BaseException] = []

    def work() -> None:
        try:
            with unstuck.section("work", timeout=SHORT, on_timeout="raise"):
                gone(None)
        except unstuck.SectionTimeout as error:
            thread_error.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert len(thread_error) == 1
    assert thread_error[0].name == "work"  # type: ignore[attr-defined]


def test_outer_limit_raises_through_inner_sections(page: PageReader):
    def load() -> None:
        with unstuck.section("load", timeout=LONG, on_timeout="raise"), unstuck.section("x"):
            pass

    def epoch() -> None:
        with unstuck.section("epoch", timeout=SHORT, on_timeout="raise"):
            while True:
                load()

    with pytest.raises(unstuck.SectionTimeout, match="'epoch'"):
        epoch()
    assert page.read().section == ""
    assert page.read().deadlines == ()


def test_raise_is_over_when_the_section_is():
    """Many sections that end right at their limit: none may hit what comes after it."""
    hits = 0
    for n in range(200):
        try:
            with unstuck.section("edge", timeout=0.002, on_timeout="raise"):
                time.sleep(0.0019 + (n % 10) * 2e-5)
        except unstuck.SectionTimeout:
            hits += 1
        for _ in range(200):
            pass
    assert current.open == []
    time.sleep(0.01)
    assert 0 <= hits <= 200


def test_another_exception_is_not_replaced():
    def load() -> None:
        with unstuck.section("load", timeout=SHORT, on_timeout="raise"):
            with contextlib.suppress(unstuck.SectionTimeout):
                time.sleep(LONG)
            raise KeyError("x")

    with pytest.raises(KeyError):
        load()


def test_sections_of_several_threads_have_their_own_limits():
    told: queue.Queue[str] = queue.Queue()
    stop = threading.Event()

    def work(name: str, timeout: float) -> None:
        note: Any = lambda error: told.put(error.name)  # noqa: E731
        with unstuck.section(name, timeout=timeout, on_timeout=note):
            stop.wait(LONG)

    threads = [
        threading.Thread(target=work, args=(f"t{n}", LONG if n % 2 else SHORT * (n + 1)))
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    assert [told.get(timeout=10) for _ in range(3)] == ["t0", "t2", "t4"]
    stop.set()
    for thread in threads:
        thread.join()
    assert told.empty()


def test_suspended_generator_is_hit_when_it_runs_again_and_nobody_else():
    def produce() -> Iterator[int]:
        with unstuck.section("produce", timeout=SHORT, on_timeout="raise"):
            while True:
                yield 1

    generator = produce()
    next(generator)
    until_over = time.monotonic() + 4 * SHORT
    while time.monotonic() < until_over:
        time.sleep(0.001)  # the time of the section is over, but this code is not in it
    with pytest.raises(unstuck.SectionTimeout):
        list(itertools.islice(generator, 10**9))


def test_asyncio_task_is_cancelled_alone():
    async def stuck() -> None:
        async with unstuck.section("fetch", timeout=SHORT, on_timeout="raise"):
            await asyncio.sleep(LONG)

    async def well() -> str:
        with unstuck.section("other", timeout=LONG, on_timeout="raise"):
            await asyncio.sleep(4 * SHORT)
        return "well"

    async def story() -> Any:
        return await asyncio.gather(stuck(), well(), return_exceptions=True)

    first, second = asyncio.run(story())
    assert isinstance(first, unstuck.SectionTimeout)
    assert (first.name, second) == ("fetch", "well")


def test_asyncio_task_that_blocks_the_loop_is_left_too():
    async def story() -> None:
        with unstuck.section("blocking", timeout=SHORT, on_timeout="raise"):
            time.sleep(LONG)  # noqa: ASYNC251 - that is the story

    with pytest.raises(unstuck.SectionTimeout):
        asyncio.run(story())


def test_somebody_elses_cancelling_goes_on():
    async def stuck() -> None:
        with unstuck.section("fetch", timeout=LONG, on_timeout="raise"):
            await asyncio.sleep(LONG)

    async def story() -> None:
        task = asyncio.create_task(stuck())
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(story())
