"""The handle of an operation: it times out, can be waited for again, and guards its tensors."""

import time
from typing import Any

import pytest
import torch

from unstuck.dist.base import held, limits
from unstuck.dist.base.calls import Call
from unstuck.dist.base.errors import CollectiveTimeout
from unstuck.dist.base.groups import Group
from unstuck.dist.base.limits import ENGAGED
from unstuck.dist.timed.work import TimedWork
from unstuck.errors import TensorInUseError

GROUP = Group(object(), "test", (0, 1), 0)


class Waiter:
    """Ends when the test says so."""

    def __init__(self) -> None:
        self.ended = False
        self.error: BaseException | None = None

    def wait(self, until: float) -> bool:
        if self.error is not None:
            raise self.error
        return self.ended

    def over(self) -> bool:
        return self.ended


@pytest.fixture
def waiter() -> Any:
    made = Waiter()
    yield made
    made.ended = True
    held.forget("test")
    held._spoiled.clear()
    ENGAGED[0] = 0


def issued(waiter: Waiter, op: str = "all_reduce", **call: Any) -> TimedWork:
    now = time.monotonic()
    tensor = torch.ones(2)
    operation = Call(op, GROUP, 5.0, now + 5.0, now, number=3, tensors=[tensor], **call)
    return TimedWork(operation, waiter, torch.futures.Future(), None)


def timeout(work: TimedWork, **limit: float) -> CollectiveTimeout:
    with pytest.raises(CollectiveTimeout) as caught:
        work.wait(**limit)
    return caught.value


def test_a_timeout_names_the_operation_and_its_limit(waiter: Waiter) -> None:
    error = timeout(issued(waiter))
    assert (error.op, error.number, error.timeout, error.silent) == ("all_reduce", 3, 5.0, [1])
    assert timeout(issued(waiter), timeout=2.0).timeout == pytest.approx(2.0)


def test_a_deadline_that_ends_earlier_counts(waiter: Waiter) -> None:
    with limits.deadline(1):
        assert timeout(issued(waiter)).timeout == pytest.approx(1.0, abs=0.2)


def test_the_operation_can_be_waited_for_again(waiter: Waiter) -> None:
    work = issued(waiter)
    assert timeout(work).work is work
    assert work in held.unfinished("test")
    waiter.ended = True
    assert work.wait()
    assert held.unfinished("test") == []


def test_writing_to_its_tensor_after_the_timeout_is_reported(waiter: Waiter) -> None:
    work = issued(waiter)
    timeout(work)
    work.call.tensors[0].zero_()
    waiter.ended = True
    with pytest.raises(TensorInUseError, match="wrote to a tensor while all_reduce #3"):
        work.wait()


def test_a_result_is_delivered_once(waiter: Waiter) -> None:
    delivered: list[int] = []
    work = issued(waiter)
    work._deliver = lambda: delivered.append(1)
    waiter.ended = True
    work.wait()
    work.wait()
    assert delivered == [1]


def test_an_interrupted_wait_leaves_the_operation_guarded(waiter: Waiter) -> None:
    work = issued(waiter)
    waiter.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        work.wait()
    with pytest.raises(TensorInUseError, match="still in use by all_reduce #3"):
        held.check(GROUP, work.call.tensors, "broadcast")


def test_a_failed_reduction_leaves_its_tensor_undefined(waiter: Waiter) -> None:
    work = issued(waiter, in_place=True)
    waiter.ended, waiter.error = True, ValueError("broken")
    with pytest.raises(ValueError, match="broken"):
        work.wait()
    with pytest.raises(TensorInUseError, match="contents of the tensor are undefined"):
        held.check(GROUP, work.call.tensors, "broadcast")
    work.call.tensors[0].fill_(1)
    held.check(GROUP, work.call.tensors, "broadcast")


def test_it_looks_like_the_handle_of_torch(waiter: Waiter) -> None:
    work = issued(waiter)
    assert repr(work) == "<all_reduce #3 on group 'test', running>"
    waiter.ended = True
    assert work.is_completed()
    assert "complete" in repr(work)
    assert callable(work.then)
