"""What is left of a job is found and ended; who can hear SIGTERM is left to hear it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from children import PAGE, Child, child, rank_env, until, write_page
from clocks import FakeClock
from unstuck.launch import leftovers
from unstuck.model.rank import CodeLine, Phase, Process, ProcessState, RankState
from unstuck.observe.node.process import procfs

MARKED = "import signal, sys, time; {}; print('ready', flush=True); time.sleep(600)"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.fixture
def mark() -> str:
    return f"{os.getpid()}-{time.monotonic_ns()}"


@pytest.fixture
def start(mark: str) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def begin(does: str = "pass") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", MARKED.format(does)],
            env={**os.environ, leftovers.MARK: mark},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def gone(pid: int) -> bool:
    found = procfs.stat(pid)
    return found is None or found.state in "ZX"


def test_processes_are_found_by_their_mark(mark: str, start: Callable[..., subprocess.Popen[str]]):
    one, two = start(), start()
    assert sorted(leftovers.of_run(mark, set())) == sorted([one.pid, two.pid])
    assert leftovers.of_run(mark, {one.pid}) == [two.pid]
    assert leftovers.of_run(mark[:-1], set()) == []
    one.kill()
    until(lambda: gone(one.pid))
    assert leftovers.of_run(mark, set()) == [two.pid]


def test_orderly_ones_end_by_sigterm_and_stubborn_ones_by_force(
    mark: str, start: Callable[..., subprocess.Popen[str]]
):
    polite, deaf, stopped = start(), start(DEAF), start()
    os.kill(stopped.pid, signal.SIGSTOP)

    assert leftovers.end_all(mark, set(), grace=0.5) == 3
    assert [process.wait(10) for process in (polite, deaf)] == [-15, -9]
    assert stopped.wait(10) in (-9, -15)
    assert leftovers.end_all(mark, set()) == 0


def test_process_that_is_gone_is_no_error():
    leftovers.kill(1 << 22)


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Child]:
    (tmp_path / "live").mkdir()
    with child(
        tmp_path / "child", PAGE + "import ctypes\n", rank_env(tmp_path / "live")
    ) as started:
        started.do("1")
        yield started


def judge_after(live: Path, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Judge the ranks as the supervisor does, so many seconds after the end was asked for."""
    clock = FakeClock()
    ranks = leftovers.Unresponsive(live, clock)
    meanwhile()
    clock.sleep(seconds)
    ranks.end()
    ranks.close()


def test_stopped_rank_is_ended(rank: Child, tmp_path: Path):
    def stop() -> None:
        os.kill(rank.pid, signal.SIGSTOP)
        until(lambda: (s := procfs.stat(rank.pid)) and s.state == "T")

    judge_after(tmp_path / "live", 0.0, stop)
    until(lambda: gone(rank.pid))


def test_rank_that_holds_the_gil_is_ended(rank: Child, tmp_path: Path):
    judge_after(tmp_path / "live", 3.0, lambda: rank.tell("ctypes.PyDLL(None).sleep(600)"))
    until(lambda: gone(rank.pid))


STACK = (CodeLine("train.py", 7, "train", user=True),)
ALIVE = RankState(
    0,
    "h",
    Process(7, ProcessState("S")),
    phase=Phase("run"),
    in_flight=True,
    stalled_for=5.0,
    stack=STACK,
)


@pytest.mark.parametrize(
    ("now", "unresponsive"),
    [
        (ALIVE, True),
        (replace(ALIVE, stalled_for=0.5), False),
        (replace(ALIVE, in_flight=False), False),
        (replace(ALIVE, in_flight=False, phase=Phase.INIT), True),
        (replace(ALIVE, stack=(CodeLine("train.py", 90, "save", user=True),)), False),
        (replace(ALIVE, process=Process(7, ProcessState("R"), cpu=0.9)), False),
        (replace(ALIVE, process=Process(7, ProcessState("T")), unobserved="no page"), True),
        (replace(ALIVE, unobserved="no page"), False),
        (replace(ALIVE, in_flight=False, beat_age=3.0), True),
        (replace(ALIVE, in_flight=False, beat_age=3.0, phase="exit"), False),
    ],
    ids=[
        "blocked in a collective", "just entered one", "runs its own code", "joins",
        "runs its handler", "computes", "stopped", "cannot be observed", "holds the GIL",
        "is leaving",
    ],
)  # fmt: skip
def test_rank_that_can_run_its_handler_is_left_alone(now: RankState, unresponsive: bool):
    assert leftovers.is_unresponsive(ALIVE, now) is unresponsive


RUNS = replace(ALIVE, in_flight=False)
HOLDS_GIL = replace(RUNS, beat_age=3.0)
PICKLES = replace(HOLDS_GIL, process=Process(7, ProcessState("R"), cpu=0.9))
STOPPED = replace(ALIVE, process=Process(7, ProcessState("T")))


def test_rank_that_waits_for_one_that_still_runs_is_left_to_it():
    def beyond(*ranks: RankState, unseen: bool = False) -> set[int]:
        before = dict.fromkeys(range(len(ranks)), ALIVE)
        return leftovers.beyond_help(before, dict(enumerate(ranks)), unseen=unseen)

    assert beyond(ALIVE, RUNS) == set()
    assert beyond(ALIVE, ALIVE) == {0, 1}
    assert beyond(ALIVE, ALIVE, unseen=True) == set()
    assert beyond(ALIVE, STOPPED, RUNS) == {1}
    assert beyond(ALIVE, HOLDS_GIL) == {0, 1}
    assert beyond(ALIVE, PICKLES) == set()


def test_rank_that_held_the_gil_before_it_was_asked_does_not_save():
    assert leftovers.is_unresponsive(HOLDS_GIL, PICKLES)


@pytest.mark.parametrize(
    "said",
    [{"problem": "RuntimeError: no recorder"}, {"phase": "exit"}],
    ids=["cannot be observed", "is leaving"],
)
def test_silent_rank_that_is_left_alone(rank: Child, tmp_path: Path, said: dict[str, str]):
    (tmp_path / "own").mkdir()
    page = write_page(tmp_path / "own", 0, rank.pid, **said)
    page.beat(time.monotonic() - 100)
    judge_after(tmp_path / "own", 0.0)
    assert not gone(rank.pid)


def test_directory_without_ranks(tmp_path: Path):
    judge_after(tmp_path, 0.0)
