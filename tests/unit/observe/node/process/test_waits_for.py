"""What real processes wait for on their host: a lock, a pipe, a child."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import Child, child, until
from unstuck.model.neighbour import HostWait
from unstuck.observe.node.process import procfs
from unstuck.observe.node.process.waits_for import HostWaitReader, children

WORK = """
import fcntl, os, subprocess, sys, threading, time
def sleeper(**pipes):
    return subprocess.Popen(["sleep", "60"], **pipes)
def fork_with_held_lock():
    lock = threading.Lock()
    lock.acquire()
    pid = os.fork()
    if not pid:
        lock.acquire()
    return pid
def burn():
    pid = os.fork()
    while not pid and os.getppid() > 1:
        pass
    return pid
"""


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Child]:
    with child(tmp_path, WORK, os.environ) as started:
        started.do("1")
        yield started
        for pid in children(started.pid):
            os.kill(pid, signal.SIGKILL)


def wait_of(rank: Child, kind: str) -> HostWait:
    return until(lambda: _of_kind(rank.pid, kind))[0]


def _of_kind(pid: int, kind: str) -> list[HostWait]:
    found = HostWaitReader(pid, time.monotonic()).look(time.monotonic())
    return [found] if found.kind == kind and found.by else []


@pytest.mark.parametrize("how", ["flock", "lockf"])
def test_the_holder_of_a_file_lock_is_named(rank: Child, tmp_path: Path, how: str):
    file = tmp_path / "cache"
    with child(tmp_path, WORK, os.environ) as holder:
        holder.do(f"file = open({str(file)!r}, 'w')")
        holder.do(f"fcntl.{how}(file, fcntl.LOCK_EX)")
        rank.tell(f"fcntl.{how}(open({str(file)!r}, 'w'), fcntl.LOCK_EX)")
        found = wait_of(rank, "lock")

        assert found.target == str(file)
        assert [one.pid for one in found.by] == [holder.pid]
        assert found.by[0].name.startswith("python")


def test_the_reader_of_a_full_pipe_is_named(rank: Child):
    reader = rank.do("(p := sleeper(stdin=subprocess.PIPE)).pid")
    rank.tell("p.stdin.write(bytes(10**6))")
    found = wait_of(rank, "full")

    assert [(one.pid, one.name) for one in found.by] == [(reader, "sleep")]
    assert found.target == ""


def test_the_writer_of_a_pipe_is_named_and_not_its_other_readers(rank: Child):
    writer = rank.do("(p := sleeper(stdout=subprocess.PIPE)).pid")
    rank.do("sleeper(stdin=p.stdout).pid")
    rank.tell("p.stdout.read()")
    found = wait_of(rank, "data")

    assert [one.pid for one in found.by] == [writer]
    assert len(found.children) == 2


def test_the_child_that_must_end_is_told_from_its_siblings(rank: Child):
    rank.do("sleeper().pid")
    awaited = rank.do("fork_with_held_lock()")
    until(lambda: "futex" in procfs.waits_in(awaited))
    rank.tell(f"os.waitpid({awaited}, 0)")
    found = wait_of(rank, "child")

    (one,) = found.by
    assert (one.pid, one.state) == (awaited, "S")
    assert len(one.waits) == 1
    assert "futex" in one.waits[0]
    assert len(found.children) == 2


def test_a_stopped_child_is_seen_whatever_the_rank_does(rank: Child):
    pid = rank.do("sleeper().pid")
    reader = HostWaitReader(rank.pid, time.monotonic())
    os.kill(pid, signal.SIGSTOP)
    ahead = iter(range(1, 1000))

    found = until(
        lambda: [
            one for one in reader.look(time.monotonic() + next(ahead)).children if one.state == "T"
        ]
    )
    assert [(one.pid, one.name) for one in found] == [(pid, "sleep")]


def test_the_cpu_of_a_child_is_counted_between_two_readings(rank: Child):
    pid = rank.do("burn()")
    now = time.monotonic()
    reader = HostWaitReader(rank.pid, now)
    (first,) = reader.look(now).children
    assert (first.pid, first.cpu) == (pid, None)

    ahead = iter(range(1, 1000))
    assert until(lambda: (reader.look(now + next(ahead)).children[0].cpu or 0.0) > 0.0)


def test_the_cpu_of_all_threads_of_the_rank_is_counted_between_two_readings(rank: Child):
    now = time.monotonic()
    reader = HostWaitReader(rank.pid, now)
    assert reader.look(now).cpu is None
    assert reader.look(now + 1.0).cpu == pytest.approx(0.0, abs=0.2)

    rank.tell("threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start() or 1")
    ahead = iter(range(2, 1000))
    assert until(lambda: (reader.look(now + next(ahead)).cpu or 0.0) > 0.0)


def test_a_process_that_is_gone_has_no_wait():
    process = subprocess.Popen(["true"])
    process.wait()
    assert HostWaitReader(process.pid, 0.0).look(5.0) == HostWait()
