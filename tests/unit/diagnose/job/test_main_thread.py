"""Which evidence separates a wait in an operation from work with an operation outstanding."""

import pytest

from scenes import C10D, ENGINE, inside, job, user
from unstuck.diagnose.job.main_thread import call_in_progress, is_blocked
from unstuck.model.rank import CodeLine, RankState

FUTEX = "futex_wait_queue"
LINEAR = CodeLine("/lib/torch/nn/modules/linear.py", 134, "forward")
LOCK = CodeLine("/usr/lib/python3.11/threading.py", 320, "wait")


def rank(*stack: CodeLine, waits_in: str = FUTEX, cpu: float = 0.0, **fields: object) -> RankState:
    scene = job(1).enter(0).process(0, waits_in=waits_in, cpu=cpu)
    return scene.change(0, stack=stack, **fields).states[0]


def on_gpu(*stack: CodeLine) -> RankState:
    scene = job(1).enter(0).progress(0, "0", backend="nccl").process(0, waits_in="", cpu=1.0)
    return scene.change(0, stack=stack).states[0]


@pytest.mark.parametrize(
    "state",
    [
        rank(*inside("all_reduce")),
        rank(*inside("all_reduce"), waits_in="", cpu=0.9),
        rank(ENGINE, user("loss.backward()")),
        rank(ENGINE, user("loss.backward()"), waits_in="0"),
        rank(ENGINE, user("loss.backward()"), cpu=0.2),
        rank(user("work.wait()")),
        rank(user("handle()")),
        rank(user("handle()"), waits_in=""),
        rank(),
        on_gpu(user("loss.item()")),
        on_gpu(ENGINE, user("loss.backward()")),
    ],
)
def test_it_waits_in_the_operation(state: RankState) -> None:
    assert is_blocked(state)


@pytest.mark.parametrize(
    "state",
    [
        rank(user("time.sleep(9)"), waits_in="hrtimer_nanosleep"),
        rank(user("time.sleep(9)"), waits_in=""),
        rank(waits_in="hrtimer_nanosleep"),
        rank(user("x = f(x)"), waits_in="", cpu=0.97),
        rank(ENGINE, user("loss.backward()"), waits_in="", cpu=0.97),
        rank(LINEAR, user("model(x)"), waits_in="wait_on_page_bit"),
        rank(user("count += 1"), cpu=0.18),
        rank(waits_in="", cpu=0.97),
        rank(LOCK, user("event.wait()")),
        rank(user("lock.acquire()")),
        rank(user("with lock:")),
        rank(user("item = queue.get()")),
        rank(user("f.read()"), waits_in="pipe_read"),
        rank(*inside("all_reduce"), gil_held=True),
        rank(*inside("all_reduce"), phase="exception"),
        on_gpu(user("x = f(x)")),
    ],
)
def test_it_does_something_else(state: RankState) -> None:
    assert not is_blocked(state)


@pytest.mark.parametrize(
    ("state", "call"),
    [
        (rank(*inside("all_gather_into_tensor")), "all_gather_into_tensor"),
        (rank(*inside("recv")), "recv"),
        (rank(CodeLine(C10D, 1, "_get_default_group"), user("f()")), ""),
        (rank(user("dist.all_reduce(x)")), "all_reduce"),
        (rank(user("reqs = dist.batch_isend_irecv(ops)")), "batch_isend_irecv"),
        (rank(user("resend(x)"), *inside("recv")), ""),
        (rank(), ""),
    ],
)
def test_the_call_in_progress_is_read_from_the_stack(state: RankState, call: str) -> None:
    assert call_in_progress(state) == call
