"""Deadlines: nested, in threads and in tasks, ended by an exception, and misused."""

import asyncio
import contextlib
import threading
import time
from datetime import timedelta

import pytest

import unstuck
from unstuck.dist.base import limits


def test_the_deadline_that_ends_first_counts() -> None:
    with unstuck.deadline(seconds=100), unstuck.deadline(seconds=timedelta(seconds=10)) as inner:
        with unstuck.deadline(seconds=50) as longer:
            assert longer.remaining() <= 10
        assert 9 < inner.remaining() <= 10


def test_an_exception_ends_it_too() -> None:
    with contextlib.suppress(KeyError), unstuck.deadline(seconds=5):
        assert limits.ENGAGED[0] == 1
        raise KeyError
    assert limits.end() == limits.NEVER
    assert limits.ENGAGED[0] == 0


def test_one_deadline_can_be_used_again() -> None:
    limit = unstuck.deadline(seconds=5)
    for _ in range(2):
        with limit:
            assert limit.remaining() > 4


def test_another_thread_is_not_limited() -> None:
    seen: list[float] = []
    with unstuck.deadline(seconds=5):
        thread = threading.Thread(target=lambda: seen.append(limits.end()))
        thread.start()
        thread.join()
    assert seen == [limits.NEVER]


def test_tasks_have_their_own() -> None:
    async def task(seconds: float, opened: asyncio.Event, close: asyncio.Event) -> float:
        with unstuck.deadline(seconds=seconds):
            opened.set()
            await close.wait()
            return limits.end() - time.monotonic()

    async def both() -> list[float]:
        opened = [asyncio.Event(), asyncio.Event()]
        close = asyncio.Event()
        tasks = [
            asyncio.create_task(task(s, o, close)) for s, o in zip((5, 50), opened, strict=True)
        ]
        for event in opened:
            await event.wait()
        close.set()
        return list(await asyncio.gather(*tasks))

    short, long = asyncio.run(both())
    assert short <= 5
    assert 40 < long <= 50


def test_exiting_twice_is_an_error() -> None:
    limit = unstuck.deadline(seconds=5)
    with limit:
        pass
    with pytest.raises(RuntimeError, match="not open"):
        limit.__exit__(None, None, None)


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), float("nan"), timedelta(0)])
def test_invalid_durations_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="seconds must be a finite number of seconds above 0"):
        unstuck.deadline(seconds=wrong)


def test_deadlines_of_many_threads_are_counted_correctly() -> None:
    def enter_and_leave() -> None:
        for _ in range(2000):
            with unstuck.deadline(seconds=5):
                pass

    threads = [threading.Thread(target=enter_and_leave) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert limits.ENGAGED[0] == 0
