"""Raise SectionTimeout in the thread that is in a section.

In the main thread by a signal with a handler that raises: so `time.sleep`, locks, queues,
`select`, socket reads and `subprocess` waits are left at once. In another thread by
`PyThreadState_SetAsyncExc`: the exception comes when that thread next runs Python code, so not
before such a wait has ended. In an asyncio task that is suspended by cancelling the task.

Nothing leaves a C call that does not come back to Python by itself: a gloo or NCCL operation,
a long kernel, a lock inside a library. Then the exception comes as soon as the call returns.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from unstuck.observe.probe.section_timeout import SectionTimeout
from unstuck.observe.probe.this_process import current
from unstuck.script.wake_main import wake_main

if TYPE_CHECKING:
    from unstuck.script.section import Timed

SIGNAL = signal.SIGRTMIN + 6
_set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_pending: "list[Timed]" = []
retry: "list[Callable[[Timed, float], None]]" = []
"""Set by the watcher: try again so many seconds later."""
_RETRY_QUIET, _RETRY_SUSPENDED = 0.002, 0.05
_quiet: set[Any] = set()
"""Code in which nothing is raised: it raises by itself when it is done."""


class _Handler:
    installed = False


def keep_quiet(*codes: Any) -> None:
    """Do not raise inside these functions: they see to it at their end."""
    _quiet.update(code.__code__ for code in codes)


def prepare(one: "Timed") -> None:
    """Note where the section was entered, and make the main thread ready for the signal."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _TRANSPARENT:
        frame = frame.f_back
    one.frame = frame
    one.task = None
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and (loop := asyncio._get_running_loop()) is not None:
        one.task = asyncio.current_task(loop)
        one.loop = loop
    if one.thread == current.main and not _Handler.installed:
        _install()


_TRANSPARENT = ("contextlib", "unstuck.script.section", "unstuck.script.interrupt")


def _install() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(SIGNAL) == signal.SIG_DFL:
        signal.signal(SIGNAL, _handle)
        _Handler.installed = True


def raise_in(one: "Timed") -> None:
    """Raise in the section's thread. Called by the watcher, which has just got the GIL."""
    if one.thread == current.main and _Handler.installed:
        _pending.append(one)
        wake_main(SIGNAL, lambda: one not in _pending)
    elif one.task is not None:
        one.loop.call_soon_threadsafe(_cancel, one)
    elif one.is_open:
        frame = sys._current_frames().get(one.thread)
        if (again := _not_now(one, frame)) is None:
            _set_async_exc(one.thread, SectionTimeout)
        else:
            retry[0](one, again)


def withdraw(one: "Timed") -> None:
    """Take back what has not been raised yet: the section has ended by itself."""
    if one.thread != current.main or not _Handler.installed:
        _set_async_exc(one.thread, ctypes.py_object())


def _handle(_signal: int, frame: FrameType | None) -> None:
    """Runs in the main thread, between two of its instructions."""
    running: list[Timed] = []
    for one in _take():
        if not one.is_open:
            continue
        again = _not_now(one, frame)
        if again is None:
            running.append(one)
        elif again == _RETRY_SUSPENDED and one.task is not None:
            one.loop.call_soon_threadsafe(_cancel, one)
        else:
            retry[0](one, again)
    if running:
        outermost = min(running, key=lambda one: one.began)
        raise outermost.error or SectionTimeout()


def _take() -> "list[Timed]":
    found = _pending[:]
    del _pending[: len(found)]
    return found


def _not_now(one: "Timed", frame: FrameType | None) -> float | None:
    """Return None when the code of the section runs in that thread; else when to try again.

    It does not while a generator or coroutine is suspended in it.
    """
    while frame is not None and frame is not one.frame:
        if frame.f_code in _quiet:
            return _RETRY_QUIET
        frame = frame.f_back
    return None if frame is not None else _RETRY_SUSPENDED


def _cancel(one: "Timed") -> None:
    if one.is_open and one.task is not None:
        one.cancelled = True
        one.task.cancel()


os.register_at_fork(after_in_child=_pending.clear)
