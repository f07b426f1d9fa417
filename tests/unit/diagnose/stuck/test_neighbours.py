"""Whom a rank waits for on its own host."""

import pytest

from scenes import job, user
from unstuck.diagnose.stuck.host import Doing, explain_rank
from unstuck.model.neighbour import HostWait, Neighbour
from unstuck.model.rank import CodeLine
from unstuck.model.verdict import Cause

SLEEPER = Neighbour(77, "sleep", "S", ("hrtimer_nanosleep",), 0.0)
STOPPED = Neighbour(78, "python train.py", "T", ("do_signal_stop",), 0.0)
LOCKED = Neighbour(79, "python train.py", "S", ("futex_do_wait",), 0.0)
MIXED = Neighbour(80, "fetch", "S", ("futex_do_wait", "tcp_recvmsg"), 0.0)
ACTIVE = Neighbour(81, "gzip", "R", (), 0.9)
REDUCTIONS = CodeLine("/usr/lib/python3.11/multiprocessing/connection.py", 379, "_recv")


def doing(
    waits_in: str, waiting: HostWait, *stack: CodeLine, state: str = "S", cpu: float = 0.0
) -> Doing:
    scene = job(1).process(0, state=state, cpu=cpu, waits_in=waits_in)
    lines = (*stack, user("load(x)", 12, "prepare"))
    scene.change(0, stack=lines, stalled_for=9.0, waiting=waiting)
    return explain_rank(scene.states[0])


LOCK = HostWait("lock", "/data/cache.lock", (SLEEPER,))


@pytest.mark.parametrize(
    ("where", "waiting", "cause", "phrase"),
    [
        (
            "locks_lock_inode_wait",
            LOCK,
            Cause.HOST_DEADLOCK,
            "waits for the lock on /data/cache.lock, held by process 77 (sleep)",
        ),
        ("fcntl_setlk", HostWait(), Cause.HOST_DEADLOCK, "waits for the lock on a file"),
        (
            "anon_pipe_write",
            HostWait("full", by=(SLEEPER,)),
            Cause.HOST_DEADLOCK,
            "is blocked writing to a pipe, which is full; process 77 (sleep) should read it",
        ),
        (
            "pipe_write",
            HostWait("full", "its standard output", (ACTIVE,)),
            Cause.BUSY_ELSEWHERE,
            "is blocked writing to its standard output, which is full; process 81 (gzip) should "
            "read it",
        ),
        (
            "do_wait",
            HostWait("child", by=(LOCKED,), children=(LOCKED,)),
            Cause.HOST_DEADLOCK,
            "waits for its child process 79 (python train.py), which is itself waiting for a lock",
        ),
        (
            "do_wait",
            HostWait("child", by=(STOPPED,)),
            Cause.HOST_DEADLOCK,
            "waits for its child process 78 (python train.py), which is stopped",
        ),
        (
            "do_wait",
            HostWait("child", by=(SLEEPER,), children=(SLEEPER, STOPPED)),
            Cause.BUSY_ELSEWHERE,
            "waits for its child process 77 (sleep) to exit",
        ),
        (
            "anon_pipe_read",
            HostWait("data", by=(MIXED,)),
            Cause.BUSY_ELSEWHERE,
            "waits for data from its child process 80 (fetch)",
        ),
    ],
)
def test_readings(where: str, waiting: HostWait, cause: Cause, phrase: str) -> None:
    found = doing(where, waiting)
    assert (found.cause, found.culprit.doing) == (cause, phrase)
    other = {Cause.HOST_DEADLOCK, Cause.BUSY_ELSEWHERE} - {cause}
    assert other == {one.cause for one in found.alternatives}
    told = [item.text for item in found.evidence]
    assert all(any(str(one.pid) in text for text in told) for one in waiting.by)


def test_a_worker_that_is_stopped_is_named_where_the_rank_waits_for_workers() -> None:
    workers = HostWait(children=(SLEEPER, STOPPED))
    found = doing("unix_stream_read_generic", workers, REDUCTIONS)
    assert found.cause is Cause.HOST_DEADLOCK
    assert "78 (python train.py), which is stopped" in found.culprit.doing
    assert "kill -CONT 78" in found.because


def test_a_stopped_child_does_not_explain_a_rank_that_waits_for_something_else() -> None:
    workers = HostWait(children=(STOPPED,))
    assert "stopped" not in doing("unix_stream_read_generic", workers).culprit.doing
    asleep = doing("hrtimer_nanosleep", workers, REDUCTIONS)
    assert asleep.culprit.doing == "is asleep"
    running = doing("", workers, REDUCTIONS, state="R", cpu=0.9)
    assert running.culprit.doing == "is running its own code"


def test_a_loader_that_gives_nothing_is_no_ordinary_child() -> None:
    loader = CodeLine("/lib/torch/utils/data/dataloader.py", 1251, "_try_get_data")
    found = doing("anon_pipe_read", HostWait("data", by=(SLEEPER,)), loader)
    assert found.culprit.doing == "waits for its DataLoader workers"


def test_a_child_that_works_beside_its_locks_is_not_stuck() -> None:
    busy = Neighbour(82, "python train.py", "S", ("futex_do_wait",), 0.4)
    assert doing("do_wait", HostWait("child", by=(busy,))).cause is Cause.BUSY_ELSEWHERE
