"""What is left of a job is found and ended; who can hear SIGTERM is left to hear it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from children import PAGE, Child, child, rank_env, until, write_page
from unstuck.launch import leftovers
from unstuck.observe.node import procfs

MARKED = "import signal, sys, time; {}; print('ready', flush=True); time.sleep(600)"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
HANDLER = """
import ctypes
threading.Thread(target=beat_for_ever, daemon=True).start()
def save(*_):
    end = time.monotonic() + 600
    while time.monotonic() < end:
        sum(range(1000))
def frames_for_ever():
    from unstuck.observe.probe import frames
    while True:
        report(frames=frames.of_thread(about["main_thread"]))
        time.sleep(0.02)
"""


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
    with child(tmp_path / "child", PAGE + HANDLER, rank_env(tmp_path / "live")) as started:
        started.do("1")
        yield started


def after(deaf: leftovers.Deaf, seconds: float) -> None:
    """Judge as often as the supervisor does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.25)
        deaf.end()
    deaf.close()


def test_stopped_rank_is_ended(rank: Child, tmp_path: Path):
    deaf = leftovers.Deaf(tmp_path / "live")
    os.kill(rank.pid, signal.SIGSTOP)
    until(lambda: (s := procfs.stat(rank.pid)) and s.state == "T")
    deaf.end()
    until(lambda: gone(rank.pid))
    deaf.end()
    deaf.close()


def test_rank_that_holds_the_gil_is_ended(rank: Child, tmp_path: Path):
    deaf = leftovers.Deaf(tmp_path / "live")
    rank.tell("ctypes.PyDLL(None).sleep(600)")
    after(deaf, 3.0)
    until(lambda: gone(rank.pid))


def test_rank_that_is_blocked_in_a_collective_is_ended(rank: Child, tmp_path: Path):
    rank.do("report(status={'0': [4, 3]}, frames=[['train.py', 7, 'train', True]])")
    deaf = leftovers.Deaf(tmp_path / "live")
    after(deaf, 2.0)
    until(lambda: gone(rank.pid))


def test_rank_that_runs_its_handler_is_left_alone(rank: Child, tmp_path: Path):
    rank.do("report(status={'0': [4, 3]})")
    rank.do("threading.Thread(target=frames_for_ever, daemon=True).start()")
    rank.do("signal.signal(signal.SIGTERM, save) and None")
    deaf = leftovers.Deaf(tmp_path / "live")
    os.kill(rank.pid, signal.SIGTERM)
    after(deaf, 2.5)
    assert not gone(rank.pid)


@pytest.mark.parametrize(
    "said",
    [{"problem": "RuntimeError: no recorder"}, {"phase": "exit"}],
    ids=["cannot be seen into", "is leaving"],
)
def test_silent_rank_that_is_left_alone(rank: Child, tmp_path: Path, said: dict[str, str]):
    (tmp_path / "own").mkdir()
    page = write_page(tmp_path / "own", 0, rank.pid, **said)
    page.beat(time.monotonic() - 100)
    deaf = leftovers.Deaf(tmp_path / "own")
    deaf.end()
    deaf.close()
    assert not gone(rank.pid)


def test_directory_without_ranks(tmp_path: Path):
    deaf = leftovers.Deaf(tmp_path)
    deaf.end()
    deaf.close()
