"""Sections with a time limit: what happens when it passes, and what a wrong use says."""

import asyncio
import contextlib
import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import unstuck
from children import until
from unstuck.observe.probe import sections
from unstuck.observe.probe.current import current
from unstuck.observe.probe.deadlines import watcher
from unstuck.observe.probe.page import PageReader, PageWriter

SHORT = 0.05
LONG = 20.0
"""A wait that nothing but the deadline ends: no test takes so long."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    current.__init__()
    sections._plain.clear()
    sections._learned._seen.clear()
    yield
    assert not watcher.open
    current.__init__()
    sections._plain.clear()


@pytest.fixture
def page(tmp_path: Path) -> PageReader:
    current.attach(PageWriter(str(tmp_path / "page")))
    return PageReader(str(tmp_path / "page"))


# --- what happens


def test_callable_is_called_in_a_helper_thread():
    told: queue.Queue[tuple[unstuck.SectionTimeout, str]] = queue.Queue()

    def note(error: unstuck.SectionTimeout) -> None:
        told.put((error, threading.current_thread().name))

    with unstuck.section("load batch", timeout=SHORT, on_timeout=note):
        error, thread = told.get(timeout=10)
        assert told.empty()
    assert (error.name, error.timeout, thread) == ("load batch", SHORT, "unstuck on_timeout")
    assert SHORT <= error.seconds < 5
    assert error.function == "test_callable_is_called_in_a_helper_thread"


def test_section_that_ends_in_time_does_nothing():
    told: list[object] = []
    for _ in range(20):
        with unstuck.section("load", timeout=SHORT, on_timeout=told.append):
            pass
    time.sleep(3 * SHORT)
    assert told == []


def test_report_names_section_limit_and_line(capfd: pytest.CaptureFixture[str]):
    with unstuck.section("load batch", timeout=SHORT):
        said = until(lambda: capfd.readouterr().err)
    assert said.startswith("unstuck: section 'load batch' has taken 0.05 s, its timeout, and is at")
    assert said.count("\n") == 1


def test_dump_shows_all_threads(capfd: pytest.CaptureFixture[str]):
    go = threading.Event()
    other = threading.Thread(target=go.wait, name="other")
    other.start()
    said = ""
    with unstuck.section("load batch", timeout=SHORT, on_timeout="dump"):
        deadline = time.monotonic() + 10
        while said.count("Thread 0x") < 2 and time.monotonic() < deadline:
            said += capfd.readouterr().err
            time.sleep(0.01)
    go.set()
    other.join()
    assert "section 'load batch'" in said
    assert said.count("Thread 0x") >= 2


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


def test_abort_ends_the_process(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import time, unstuck\n"
        "with unstuck.section('save', timeout=0.1, on_timeout='abort'):\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == -6
    assert "section 'save' has taken 0.1 s, its timeout, and is at script.py:3" in done.stderr
    assert "Thread 0x" in done.stderr


# --- several at a time


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


def test_one_watcher_thread_serves_all():
    with contextlib.ExitStack() as stack:
        for n in range(100):
            stack.enter_context(unstuck.section(f"s{n}", timeout=LONG))
        ours = [t for t in threading.enumerate() if t.name == "unstuck deadlines"]
        assert len(ours) == 1


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


def test_fork_has_its_own_limits_and_leaves_its_parents_page_alone(page: PageReader):
    with unstuck.section("parent", timeout=LONG, on_timeout="raise"):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                try:
                    with unstuck.section("child", timeout=SHORT, on_timeout="raise"):
                        time.sleep(LONG)
                except unstuck.SectionTimeout:
                    os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        seen = page.read()
        assert (seen.section, [one.name for one in seen.deadlines]) == ("parent", ["parent"])
    assert page.read().deadlines == ()


def test_end_of_the_interpreter_in_the_middle(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, threading, time, unstuck\n"
        "def work():\n"
        "    with unstuck.section('background', timeout=60, on_timeout='raise'):\n"
        "        time.sleep(60)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "unstuck.section('open', timeout=0.05).__enter__()\n"
        "time.sleep(0.2)\n"
        "sys.exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 7
    assert done.stderr.count("\n") == 1, done.stderr


# --- limits that are learned


def test_limit_is_learned_from_ten_visits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sections, "_FLOOR", 0.02)
    told: queue.Queue[unstuck.SectionTimeout] = queue.Queue()
    for _ in range(10):
        with unstuck.section("save", on_timeout=told.put):
            time.sleep(0.01)
    assert told.empty()
    with unstuck.section("save", on_timeout=told.put):
        error = told.get(timeout=10)
    assert error.learned
    assert error.timeout >= 0.03
    assert "three times as long as ever before" in str(error)


def test_nothing_is_learned_from_what_failed():
    for _ in range(20):
        with contextlib.suppress(KeyError), unstuck.section("save", on_timeout="report"):
            raise KeyError
    with unstuck.section("save", on_timeout="report") as now:
        assert now.deadline == 0.0  # type: ignore[attr-defined]


# --- as a decorator, around iterators


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


# --- wrong use


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), timedelta(seconds=-3)])
def test_timeout_that_is_none(timeout: Any):
    with pytest.raises(ValueError, match="timeout must be above 0 seconds, not"):
        unstuck.section("load", timeout=timeout)
    with pytest.raises(ValueError, match="timeout must be above 0 seconds, not"):
        unstuck.watched([], timeout=timeout)


def test_arguments_of_the_wrong_kind_are_named():
    with pytest.raises(TypeError, match="timeout must be seconds or a timedelta, not 'soon'"):
        unstuck.section("load", timeout="soon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"on_timeout must be 'report', .* not 'explode'"):
        unstuck.section("load", timeout=1, on_timeout="explode")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="iterable must be something to iterate over, not 7"):
        unstuck.watched(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="section 'load' can decorate a function, not 7"):
        unstuck.section("load")(7)  # type: ignore[type-var]


@pytest.mark.parametrize("timeout", [None, LONG])
def test_section_closed_twice(timeout: float | None):
    one = unstuck.section("load", timeout=timeout)
    with one:
        pass
    with pytest.raises(RuntimeError, match="section 'load' is closed already"):
        one.__exit__(None, None, None)


def test_section_opened_twice_or_never():
    one = unstuck.section("load", timeout=LONG)
    with pytest.raises(RuntimeError, match="section 'load' was never entered"):
        one.__exit__(None, None, None)
    with one, pytest.raises(RuntimeError, match="section 'load' is open already"):
        one.__enter__()
    with one:
        pass


def test_timedelta_is_a_timeout():
    with unstuck.section("load", timeout=timedelta(minutes=1)) as now:
        assert 59 < now.deadline - time.monotonic() <= 60  # type: ignore[attr-defined]


def test_more_names_than_the_page_has_places_for(page: PageReader):
    for n in range(300):
        with unstuck.section(f"step {n}"):
            assert page.read().section == f"step {n}"
        with unstuck.section(f"late {n}", timeout=LONG):
            assert page.read().section == f"late {n}"
    assert page.read().section == ""


@pytest.mark.timeout(30)
def test_signal_that_comes_while_the_watcher_is_woken_locks_nothing_up():
    """What the handler does must be possible between any two steps of what it interrupts."""
    one, main = sections.Timed("late", LONG, "raise"), threading.get_ident()
    before = signal.signal(signal.SIGUSR1, lambda *_: watcher.retry(one, 0.0))
    over = threading.Event()

    def storm() -> None:
        while not over.is_set():
            signal.pthread_kill(main, signal.SIGUSR1)

    thread = threading.Thread(target=storm)
    thread.start()
    try:
        for _ in range(20_000):
            watcher.hurry()
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)
