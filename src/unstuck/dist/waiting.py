"""Waiting for an operation without ending it: three ways, for what torch offers in each case."""

import os
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

import torch

from unstuck.dist.limits import NEVER

SLICE = 0.25
"""Seconds at most before Python runs again: signal handlers and Ctrl-C get their turn."""
_TIMED_OUT = "Operation timed out!"
_SOON = timedelta(seconds=0.1)


class Waiter(Protocol):
    """Something that can be waited for again after the time was up."""

    def wait(self, until: float) -> bool:
        """Wait; True when it completed, False when the time is up. Raises what ended it."""
        ...

    def over(self) -> bool:
        """Tell whether it ended, well or not."""
        ...


class Native:
    """A collective of gloo: `Work.wait(timeout)` leaves the operation and the group alone."""

    def __init__(self, work: Any, on_wait: Callable[[], None]) -> None:
        self._work = work
        self._on_wait = on_wait

    def wait(self, until: float) -> bool:
        """Wait in slices."""
        first = True
        while True:
            left = until - time.monotonic()
            if left <= 0 and not self._work.is_completed():
                return False
            # A wait of 0 ms would be one without an end.
            piece = min(max(left, 0.001), SLICE)
            if first and left > 0.002:
                piece = min(piece, left / 2)
            try:
                self._work.wait(timedelta(seconds=max(piece, 0.001)))
            except RuntimeError as error:
                if _TIMED_OUT not in str(error):
                    raise
            else:
                return True
            if first:
                first = False
                self._on_wait()

    def over(self) -> bool:
        """Ask torch."""
        return bool(self._work.is_completed())


def soon(work: Any) -> bool:
    """Wait a moment for a collective of gloo; False when it takes longer."""
    try:
        work.wait(_SOON)
    except RuntimeError as error:
        if _TIMED_OUT not in str(error):
            raise
        return False
    return True


class Polled:
    """A future, or work of a device, whose `wait` returns before the device is done: ask it."""

    def __init__(
        self, work: Any, on_wait: Callable[[], None], over: Callable[[], bool] | None = None
    ) -> None:
        self._work = work
        self._on_wait = on_wait
        self.over: Callable[[], bool] = over or work.is_completed

    def wait(self, until: float) -> bool:
        """Ask ever more slowly, up to once in 5 ms."""
        pause = 20e-6
        while not self.over():
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            if pause >= 5e-3:
                self._on_wait()
            pause = min(pause * 1.5, 5e-3)
        self._work.wait()
        return True


class Threaded:
    """What torch can only wait for without a limit: a helper thread does.

    A send or receive of gloo, because its `wait(timeout)` closes the whole group, and the object
    collectives, which consist of several operations.
    """

    def __init__(self, run: Callable[[], Any], on_wait: Callable[[], None]) -> None:
        self._on_wait = on_wait
        self._over = threading.Event()
        self._error: BaseException | None = None
        self.result: Any = None
        _running.add(self)
        _start(self._work_on(run))

    def _work_on(self, run: Callable[[], Any]) -> Callable[[], None]:
        device = torch.cuda.current_device() if torch.cuda.is_initialized() else None

        def job() -> None:
            try:
                if device is not None:
                    torch.cuda.set_device(device)
                self.result = run()
            except BaseException as error:
                self._error = error
            finally:
                _running.discard(self)
                self._over.set()

        return job

    def wait(self, until: float) -> bool:
        """Wait for the thread; one that is late once is asked about the others on the way."""
        first = min(0.5 * (until - time.monotonic()), SLICE)
        if not self._over.wait(max(0.0, first)):
            self._on_wait()
            while not self._over.is_set():
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._over.wait(min(left, 3600.0))
        if self._error is not None:
            raise self._error
        return True

    def over(self) -> bool:
        """Tell whether the thread is done."""
        return self._over.is_set()


def end_of(waiter: Waiter, seconds: float) -> bool:
    """Wait until it ended, well or not, for at most so long."""
    try:
        return waiter.wait(time.monotonic() + seconds)
    except Exception:
        return True


def join_threads(seconds: float) -> bool:
    """Wait until no helper thread is inside torch; at exit one that is could end in a crash."""
    until = time.monotonic() + seconds
    return all(end_of(each, until - time.monotonic()) for each in list(_running))


class _Helper(threading.Thread):
    """A thread that does one job after the other, so that not every call starts one."""

    def __init__(self) -> None:
        super().__init__(name="unstuck-wait", daemon=True)
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run(self) -> None:
        while True:
            self.jobs.get()()
            if len(_idle) >= 4:
                return
            _idle.append(self)


_idle: list[_Helper] = []
_running: set[Threaded] = set()


def _start(job: Callable[[], None]) -> None:
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
        helper.start()
    helper.jobs.put(job)


def _forget_threads() -> None:
    """Forget threads that a forked child does not have."""
    _idle.clear()
    _running.clear()


os.register_at_fork(after_in_child=_forget_threads)
__all__ = ["NEVER", "Native", "Polled", "Threaded", "Waiter", "end_of", "join_threads"]
