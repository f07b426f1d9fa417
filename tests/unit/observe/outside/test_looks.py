"""What several looks at real processes say: who moved, who sleeps and since when, who stopped."""

import os
import signal
from pathlib import Path

from children import child, until
from unstuck.model.rank import Phase, ProcessState
from unstuck.observe.node.process import procfs
from unstuck.observe.outside.calls import DEFAULT, UNKNOWN, Call
from unstuck.observe.outside.looks import Looks, unified
from unstuck.observe.outside.rank_processes import RankProcess

IN_TORCH = """
import sys, threading
sys.path.insert(0, {folder!r})
import distributed_c10d
def train():
    distributed_c10d.all_reduce(1)
def count():
    n = 0
    while True:
        n += 1
"""
BLOCK = """
import threading
def all_reduce(tensor, group=None):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""


def look(*pids: int) -> Looks:
    ranks = [RankProcess(pid, rank, world_size=len(pids)) for rank, pid in enumerate(pids)]
    return Looks(ranks, "here")


def test_one_waits_in_a_collective_and_the_other_has_not_come(tmp_path: Path) -> None:
    (tmp_path / "distributed_c10d.py").write_text(BLOCK)
    prelude = IN_TORCH.format(folder=str(tmp_path))
    with child(tmp_path / "0", prelude) as waits, child(tmp_path / "1", prelude) as counts:
        waits.tell("train()")
        counts.tell("count()")
        found = look(waits.pid, counts.pid)
        until(lambda: _again(found) and found.calls()[0] and found.states()[0].stalled_for > 0)
        inside, outside = found.states()

    assert (inside.in_flight, outside.in_flight) == (True, False)
    assert inside.groups[0].enqueued > outside.groups[0].enqueued
    assert inside.stalled_for > 0
    assert inside.phase is outside.phase is Phase.RUN
    assert any(frame.function == "count" for frame in outside.stack)
    assert not found.problems


def test_a_stopped_rank_is_seen_as_stopped_and_a_dead_one_as_gone(tmp_path: Path) -> None:
    with child(tmp_path / "0") as stopped, child(tmp_path / "1") as dead:
        stopped.do("1")
        dead.do("1")
        found = look(stopped.pid, dead.pid)
        os.kill(stopped.pid, signal.SIGSTOP)
        until(lambda: (stat := procfs.stat(stopped.pid)) and stat.state == "T")
        dead.end()
        found.again()
        first, second = found.states()

    assert first.process.state is ProcessState.STOPPED
    assert second.process.gone_for is not None
    assert found.problems[1].problem == "the process has ended"


def test_a_rank_that_waits_on_and_on_has_not_moved_and_one_that_was_woken_has(
    tmp_path: Path,
) -> None:
    with child(tmp_path / "0") as still, child(tmp_path / "1") as woken:
        still.do("1")
        woken.do("1")
        still.until_idle()
        woken.until_idle()
        found = look(still.pid, woken.pid)
        woken.do("__import__('time').sleep(0.01)")
        woken.tell("__import__('threading').Event().wait()")
        until(lambda: _again(found) and found.watched[1].moved)

        assert [one.moved for one in found.watched] == [False, True]


def test_calls_are_one_call_unless_all_ranks_are_surely_in_different_ones() -> None:
    reduce, gather = Call("all_reduce"), Call("all_gather")
    grouped = Call("all_gather", UNKNOWN)

    assert unified({0: reduce, 1: gather}) == {0: reduce, 1: gather}
    assert unified({0: reduce, 1: reduce, 2: gather, 3: None})[2] == reduce
    assert unified({0: reduce, 1: reduce, 2: grouped})[2] == Call("all_reduce", UNKNOWN)
    assert reduce.group == DEFAULT


def _again(found: Looks) -> bool:
    found.again()
    return True
