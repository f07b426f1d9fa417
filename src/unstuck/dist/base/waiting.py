"""Three ways to wait for an operation without ending it, depending on what torch offers."""

import os
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

import torch

SLICE = 0.25
"""Seconds before Python code runs again, so that signal handlers and Ctrl-C take effect."""
_TIMED_OUT = "Operation timed out!"
_SOON = timedelta(seconds=0.1)


class Waiter(Protocol):
    """Something that can be waited for again after a timeout."""

    def wait(self, until: float) -> bool:
        """Wait; True: it completed, False: time is up. Raises the error that ended it, if any."""
        ...

    def over(self) -> bool:
        """Tell whether it has ended, successfully or not."""
        ...


class Native:
    """A gloo collective: `Work.wait(timeout)` leaves the operation and the group intact."""

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
            piece = min(left / 2 if first else left, SLICE)
            # torch takes 0 ms for "no timeout".
            if _completed(self._work, timedelta(seconds=max(piece, 0.001))):
                return True
            if first:
                first = False
                self._on_wait()

    def over(self) -> bool:
        """Ask torch."""
        return bool(self._work.is_completed())


def soon(work: Any) -> bool:
    """Wait briefly for a gloo collective; False when it takes longer."""
    return _completed(work, _SOON)


def _completed(work: Any, within: timedelta) -> bool:
    try:
        work.wait(within)
    except RuntimeError as error:
        if _TIMED_OUT not in str(error):
            raise
        return False
    return True


class Polled:
    """A future, or work on a device whose `wait` returns before the device is done: poll it."""

    def __init__(
        self, work: Any, on_wait: Callable[[], None], over: Callable[[], bool] | None = None
    ) -> None:
        self._work = work
        self._on_wait = on_wait
        self.over: Callable[[], bool] = over or work.is_completed

    def wait(self, until: float) -> bool:
        """Poll at growing intervals, up to 5 ms."""
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
    """What torch can only wait for without a limit: a helper thread does so.

    Used for gloo's sends and receives, whose `wait(timeout)` closes the whole group, and for the
    object collectives, which consist of several operations.
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
        """Wait for the thread; call `on_wait` once if it takes long."""
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
    """Wait for at most this long until it ends, successfully or not."""
    try:
        return waiter.wait(time.monotonic() + seconds)
    except Exception:
        return True


def join_threads(seconds: float) -> bool:
    """Wait until no helper thread is inside torch, where it could crash the exiting interpreter."""
    until = time.monotonic() + seconds
    return all(end_of(each, until - time.monotonic()) for each in list(_running))


class _Helper(threading.Thread):
    """A thread that is reused, so that not every call starts a new one."""

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
    """Forget the threads: a forked child does not have them."""
    _idle.clear()
    _running.clear()


os.register_at_fork(after_in_child=_forget_threads)
