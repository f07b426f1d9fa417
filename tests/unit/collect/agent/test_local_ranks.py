"""The ranks of a node, without a hub: sections that are late, and what a pause changes."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import clocks
from children import PAGE, Child, child, rank_env, until
from hubs import run, run_fast
from unstuck.collect.agent.local_ranks import LocalRanks
from unstuck.observe.node.process import procfs
from unstuck.observe.probe.page import PageReader

ENDS = 5.0
"""Seconds after which the section is long over."""


@pytest.fixture
def live(tmp_path: Path) -> Path:
    (tmp_path / "live").mkdir()
    return tmp_path / "live"


@pytest.fixture
def rank(tmp_path: Path, live: Path) -> Iterator[Child]:
    with child(tmp_path, PAGE, rank_env(live, rank=3)) as started:
        started.do("1")
        yield started


def enter(rank: Child, live: Path, action: str, then: str = "") -> None:
    """Let it enter a section, and then stop: it cannot act on its deadline itself."""
    rank.do("import ctypes, unstuck")
    rank.do("from unstuck.observe.probe.this_process import current")
    rank.do("current.attach(page)")
    section = f"unstuck.section('load', timeout=0.1, on_timeout={action!r}).__enter__()"
    rank.tell(f"now = {section}; {then}")
    page = PageReader(str(next(live.glob("rank-3.*.page"))))
    until(lambda: page.read().deadlines)
    page.close()
    if not then:
        os.kill(rank.pid, signal.SIGSTOP)
        until(lambda: (found := procfs.stat(rank.pid)) and found.state == "T")


HOLDS_GIL = "ctypes.PyDLL(None).usleep(1_500_000)"


async def watch(
    live: Path, enough: Callable[[], bool], *, paused: float = 0.0, real: bool = False
) -> None:
    """Look at the ranks of this node as an agent does, after the section's time is over."""
    clock = clocks.FakeClock() if real else clocks.current()
    ranks = LocalRanks(live, "here", clock, asyncio.Event())
    ranks.paused_until = clock.time() + paused if paused else 0.0
    ranks.look()
    clock.sleep(ENDS)
    while not enough():
        ranks.look()
        await asyncio.sleep(0.1)
    for task in list(ranks._tasks):
        task.cancel()
    await asyncio.gather(*ranks._tasks, return_exceptions=True)
    ranks.close(remove=False)


def is_gone(pid: int) -> bool:
    found = procfs.stat(pid)
    return found is None or found.state in "ZX"


def test_late_section_of_a_rank_that_cannot_run_is_reported_once(
    rank: Child, live: Path, capsys: pytest.CaptureFixture[str]
):
    enter(rank, live, "report")
    looks = iter(range(10))
    run_fast(watch(live, lambda: next(looks, None) is None))
    said = capsys.readouterr().err
    assert said.count("unstuck: rank 3: section 'load' has taken 0.1 s, its timeout") == 1


def test_while_paused_no_section_is_acted_on(
    rank: Child, live: Path, capsys: pytest.CaptureFixture[str]
):
    enter(rank, live, "abort")
    looks = iter(range(10))
    run_fast(watch(live, lambda: next(looks, None) is None, paused=60.0))
    assert capsys.readouterr().err == ""
    assert not is_gone(rank.pid)


def test_section_that_aborts_ends_even_a_stopped_rank(rank: Child, live: Path):
    enter(rank, live, "abort")
    run_fast(watch(live, lambda: is_gone(rank.pid)))
    assert rank.process.wait(10) == -signal.SIGKILL


def test_threads_of_a_rank_that_holds_the_gil_are_shown_and_the_rank_does_not_repeat_it(
    rank: Child, live: Path, capsys: pytest.CaptureFixture[str]
):
    said: list[str] = []

    def is_shown() -> bool:
        said.append(capsys.readouterr().err)
        return "in <module>" in "".join(said)

    enter(rank, live, "dump", HOLDS_GIL)
    run(watch(live, is_shown, real=True))
    assert "section 'load' has taken 0.1 s, its timeout, and it cannot run" in "".join(said)
    assert "unstuck: the threads of rank 3:" in "".join(said)
    rank.answer()
    assert "section 'load'" not in rank.said()


def test_section_that_aborts_ends_a_rank_that_holds_the_gil(rank: Child, live: Path):
    enter(rank, live, "abort", HOLDS_GIL)
    run(watch(live, lambda: is_gone(rank.pid), real=True))
    assert rank.process.wait(10) == -signal.SIGABRT


def test_a_check_that_fails_below_a_wrapper_is_not_the_ranks_death(rank: Child, live: Path):
    """The wrapper, here this process, lives: whatever joins the groups later is the rank."""
    rank.do(f"report(joined=False, top={os.getpid()})")

    async def look() -> None:
        clock = clocks.current()
        ranks = LocalRanks(live, "here", clock, asyncio.Event())
        ranks.look()
        assert [one.rank for one in ranks.report(clock.monotonic())[0]] == [3]
        rank.end()
        while next(iter(ranks._watchers.values())).alive:
            ranks.look()
            await asyncio.sleep(0.01)
        assert ranks.report(clock.monotonic())[0] == ()
        assert not ranks.any_alive
        ranks.close(remove=False)

    run(look())


def test_a_rank_that_fails_before_it_joins_has_died(rank: Child, live: Path):
    rank.do("report(joined=False, top=os.getpid())")

    async def look() -> None:
        clock = clocks.current()
        ranks = LocalRanks(live, "here", clock, asyncio.Event())
        ranks.look()
        rank.end()
        while ranks.any_alive:
            ranks.look()
            await asyncio.sleep(0.01)
        (state,) = ranks.report(clock.monotonic())[0]
        assert state.process.gone_for is not None
        ranks.close(remove=False)

    run(look())
