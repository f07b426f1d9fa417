"""What a living rank that others wait for is doing instead."""

import pytest

from scenes import C10D, job, user
from unstuck.diagnose.stuck.host import Doing, explain_rank
from unstuck.model.host import OtherProcess, Pressure
from unstuck.model.rank import CodeLine, RankState
from unstuck.model.verdict import Cause, Confidence

LOADER = CodeLine("/lib/torch/utils/data/dataloader.py", 1251, "_try_get_data")
QUEUE = CodeLine("/usr/lib/python3.11/multiprocessing/queues.py", 113, "get")
THREADING = CodeLine("/usr/lib/python3.11/threading.py", 320, "wait")
NEW_GROUP = CodeLine(C10D, 5700, "_new_process_group_helper")
TEMPLATE = user("x = work(x)", 12, "prepare")


def rank(*stack: CodeLine, **process: object) -> RankState:
    scene = job(1).process(0, **({"state": "S", "cpu": 0.0, "waits_in": ""} | process))
    return scene.change(0, stack=stack or (TEMPLATE,), stalled_for=9.0).states[0]


def told(state: RankState) -> tuple[Cause, str]:
    doing: Doing = explain_rank(state)
    return doing.cause, doing.culprit.doing


@pytest.mark.parametrize(
    ("state", "cause", "phrase"),
    [
        (rank(waits_in="hrtimer_nanosleep"), Cause.BUSY_ELSEWHERE, "is asleep"),
        (rank(user("time.sleep(9)")), Cause.BUSY_ELSEWHERE, "is asleep"),
        (rank(state="R", cpu=0.99), Cause.BUSY_ELSEWHERE, "is running its own code"),
        (rank(state="D"), Cause.BUSY_ELSEWHERE, "waits for a disk or network file system"),
        (rank(waits_in="pipe_read"), Cause.BUSY_ELSEWHERE, "waits for data from a pipe"),
        (rank(waits_in="sk_wait_data"), Cause.BUSY_ELSEWHERE, "waits for data from a socket"),
        (rank(waits_in="do_wait"), Cause.BUSY_ELSEWHERE, "waits for a child process"),
        (rank(waits_in="futex_wait_queue"), Cause.HOST_DEADLOCK, "waits for a lock"),
        (
            rank(user("count += 1"), waits_in="futex_do_wait", cpu=0.18),
            Cause.BUSY_ELSEWHERE,
            "is running its own code",
        ),
        (
            rank(user("lock.acquire()"), waits_in="futex_do_wait", cpu=0.18),
            Cause.HOST_DEADLOCK,
            "waits for a lock",
        ),
        (rank(THREADING, TEMPLATE), Cause.HOST_DEADLOCK, "waits for a lock"),
        (rank(QUEUE, LOADER, TEMPLATE), Cause.HOST_DEADLOCK, "waits for its DataLoader workers"),
        (
            rank(NEW_GROUP, TEMPLATE, waits_in="do_poll"),
            Cause.STORE_LOST,
            "waits for the job's store",
        ),
        (
            rank(state="R", cpu=0.03, delayed=0.97),
            Cause.RESOURCE_CONTENTION,
            "waits for a free core 97% of the time",
        ),
        (
            rank(state="R", cpu=0.02, throttled=0.98),
            Cause.RESOURCE_CONTENTION,
            "is throttled by the CPU limit of its cgroup 98% of the time",
        ),
        (rank(state="R", cpu=0.5, delayed=0.5), Cause.BUSY_ELSEWHERE, "is running its own code"),
        (rank(waits_in="something_else"), Cause.UNKNOWN, "has not arrived"),
        # The kernel knows better than the text of the line.
        (
            rank(user("fcntl.flock(f, LOCK_EX); time.sleep(1)"), waits_in="locks_lock_inode_wait"),
            Cause.HOST_DEADLOCK,
            "waits for the lock on a file",
        ),
        (
            rank(user("reply = sock.recv(4)"), waits_in="sk_wait_data"),
            Cause.BUSY_ELSEWHERE,
            "waits for data from a socket",
        ),
    ],
)
def test_readings(state: RankState, cause: Cause, phrase: str) -> None:
    found, doing = told(state)
    assert found is cause
    assert doing.startswith(phrase)


def test_a_host_short_of_memory_keeps_a_rank_in_the_kernel() -> None:
    doing = explain_rank(rank(state="D"), Pressure(memory=0.6))
    assert doing.cause is Cause.RESOURCE_CONTENTION
    assert doing.culprit.doing.startswith("waits for memory")
    assert explain_rank(rank(state="D"), Pressure(io=0.6)).cause is Cause.BUSY_ELSEWHERE


def test_who_takes_the_core_of_a_rank_that_does_not_come_is_named() -> None:
    hog = OtherProcess(777, "make", 1.9)
    doing = explain_rank(rank(state="R", delayed=0.96), Pressure(others=(hog,)))
    assert "competing with make (pid 777)" in doing.culprit.doing
    assert any("make (pid 777) uses 1.9 cores" in item.text for item in doing.evidence)
    assert Cause.BUSY_ELSEWHERE in {other.cause for other in doing.alternatives}


def test_a_rank_that_ran_longer_than_its_work_takes_is_not_held_up_by_its_host() -> None:
    assert told(rank(state="R", delayed=0.8))[0] is Cause.BUSY_ELSEWHERE


def test_a_held_gil_is_a_likely_deadlock_that_may_be_a_long_call() -> None:
    state = job(1).change(0, gil_held=True, beat_age=9.0).states[0]
    doing = explain_rank(state)
    assert (doing.cause, doing.confidence) == (Cause.HOST_DEADLOCK, Confidence.LIKELY)
    assert "holds the GIL in a C call" in doing.culprit.doing
    assert [one.cause for one in doing.alternatives] == [Cause.BUSY_ELSEWHERE]


def test_the_users_own_line_is_named_and_not_the_librarys() -> None:
    found = explain_rank(rank(QUEUE, LOADER, TEMPLATE)).culprit
    assert (found.file, found.line, found.function, found.code) == (
        "train.py",
        12,
        "prepare",
        "x = work(x)",
    )
    assert found.seconds == 9.0


def test_the_section_is_told() -> None:
    state = job(1).sleep(0, sections=("train", "evaluate")).states[0]
    assert explain_rank(state).culprit.doing == "is asleep in section evaluate"


def test_a_missing_stack_is_admitted() -> None:
    state = job(1).process(0, state="S", cpu=0.0).change(0, stack=()).states[0]
    doing = explain_rank(state)
    assert doing.cause is Cause.UNKNOWN
    assert "no stack" in doing.because
