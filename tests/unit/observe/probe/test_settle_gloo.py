"""The interpreter ends when gloo's workers rest, and a worker that does not rest keeps nobody."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from unstuck.observe.probe.settle_gloo import settle

Worker = Callable[[Callable[[], object]], threading.Event]


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Run something in a thread that is named as gloo's workers are; tells when it is done."""
    threads: list[threading.Thread] = []

    def start(work: Callable[[], object]) -> threading.Event:
        named, done = threading.Event(), threading.Event()

        def run() -> None:
            with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
                file.write("pt_gloo_runloop")
            named.set()
            work()
            done.set()

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        assert named.wait(10)
        return done

    yield start
    for thread in threads:
        thread.join(20)


def _took(longest: float) -> float:
    began = time.monotonic()
    settle(longest)
    return time.monotonic() - began


def _burn_without_the_gil() -> None:
    hashlib.sha512(bytes(40 << 20))


def test_worker_at_work_is_waited_for(worker: Worker):
    done = worker(_burn_without_the_gil)
    settle(60)
    assert done.wait(0.5)


def test_worker_that_waits_in_an_operation_is_not(worker: Worker):
    over = threading.Event()
    worker(over.wait)
    assert _took(20) < 10
    over.set()


def test_worker_that_never_rests_keeps_nobody_for_long(worker: Worker):
    over = threading.Event()

    def burn() -> None:
        while not over.is_set():
            _burn_without_the_gil()

    worker(burn)
    assert _took(0.2) < 10
    over.set()


def test_nothing_is_waited_for_where_gloo_is_not_used():
    assert _took(60) < 10
