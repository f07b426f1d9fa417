"""The one thread that watches all deadlines of this process, and what is done when one passes.

It sleeps until the earliest deadline that is open; entering a section only wakes it when the
new deadline is earlier than that. Where Python code cannot run, because a C call holds the GIL
or the process is stopped, this thread cannot either: then the agent of the node, which sees
the same deadline on the page, reports, dumps or aborts in its place (see
`observe/node/overdue.py`).
"""

import contextlib
import faulthandler
import math
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from unstuck.observe.probe import frames
from unstuck.observe.probe.page import AGENT_ACTS_AFTER
from unstuck.observe.probe.section_timeout import SectionTimeout
from unstuck.observe.probe.this_process import current, rank_text
from unstuck.script import interrupt

if TYPE_CHECKING:
    from unstuck.script.section import Timed

_REPORTED_BY_AGENT = AGENT_ACTS_AFTER + 0.1


class Watcher:
    """All deadlines that are open, and the thread that waits for the earliest."""

    def __init__(self) -> None:
        self.open: set[Timed] = set()
        self.due = math.inf
        """Up to when the thread sleeps."""
        self.before_abort: Callable[[SectionTimeout], None] | None = None
        # Not an Event: a signal handler wakes as well, perhaps while its thread is in here.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def hurry(self) -> None:
        """A deadline earlier than all others was added: start or wake the thread."""
        self._wake.put(None)
        if self._thread is None and self._starting.acquire(blocking=False):
            try:
                if self._thread is None:
                    thread = threading.Thread(
                        target=self._run, name="unstuck deadlines", daemon=True
                    )
                    thread.start()
                    self._thread = thread
            except RuntimeError:
                pass  # the interpreter is ending
            finally:
                self._starting.release()

    def forget(self) -> None:
        """In a fork: the deadlines and the thread are the parent's."""
        self.__init__()

    def _run(self) -> None:
        while True:
            try:
                self._wait()
                self._fire_what_is_due()
            except Exception:
                time.sleep(0.1)  # never seen; whatever it is, it must not spin

    def _wait(self) -> None:
        while not self._wake.empty():
            self._wake.get()
        # While it looks, everybody who enters wakes it: nothing is missed.
        self.due = math.inf
        due = min((one.deadline for one in list(self.open)), default=math.inf)
        if not self._wake.empty():
            return
        self.due = due
        with contextlib.suppress(queue.Empty):
            self._wake.get(timeout=None if due == math.inf else max(0.0, due - time.monotonic()))

    def _fire_what_is_due(self) -> None:
        now = time.monotonic()
        due = [one for one in list(self.open) if one.deadline <= now]
        # Those that raise go first: nothing may happen between the check and the raising.
        for one in sorted(due, key=lambda one: one.action != "raise"):
            if one in self.open:
                self.open.discard(one)
                self._fire(one, now)

    def retry(self, one: "Timed", after: float) -> None:
        """Raise in its thread a little later: at this moment its own code does not run there."""
        one.deadline = time.monotonic() + after
        self.open.add(one)
        if one.deadline < self.due:
            self._wake.put(None)
        if not one.is_open:
            self.open.discard(one)

    def _fire(self, one: "Timed", now: float) -> None:
        if one.error is not None:
            interrupt.raise_in(one)
            return
        error = describe(one, now)
        page = current.page
        if page is not None and one.place >= 0:
            page.fired(one.place)
        one.error = error
        reported = page is not None and now - one.deadline > _REPORTED_BY_AGENT
        if one.action == "raise":
            interrupt.raise_in(one)
        elif callable(one.on_timeout):
            call = threading.Thread(
                target=_call, args=(one.on_timeout, error), name="unstuck on_timeout", daemon=True
            )
            call.start()
        if not reported and one.action not in ("raise", "call"):
            tell(f"{rank_text()}{error}")
        if one.action in ("dump", "abort") and not reported:
            faulthandler.dump_traceback(file=2, all_threads=True)
        if one.action == "abort":
            self._abort(error)

    def _abort(self, error: SectionTimeout) -> None:
        try:
            if self.before_abort is not None:
                self.before_abort(error)
        finally:
            os.abort()


def describe(one: "Timed", now: float) -> SectionTimeout:
    """Say which section it is, for how long, and where its thread is."""
    found = frames.of_thread(one.thread)
    file, line, function = found[-1][:3] if found else ("", 0, "")
    return SectionTimeout(
        name=one.name,
        timeout=one.timeout or round(one.deadline - one.began, 3),
        seconds=now - one.began,
        learned=one.timeout is None,
        place=(file, line, function),
    )


def _call(on_timeout: Callable[[SectionTimeout], object], error: SectionTimeout) -> None:
    try:
        on_timeout(error)
    except Exception as failure:
        what = f"{type(failure).__name__}: {failure}"
        tell(f"{rank_text()}on_timeout of section {error.name!r} failed: {what}")


def tell(text: str) -> None:
    """Write one line to the stderr of this process, past Python's own buffers and locks."""
    try:
        os.write(2, f"unstuck: {text}\n".encode(errors="replace"))
    except OSError:
        return


watcher = Watcher()
interrupt.retry.append(watcher.retry)
os.register_at_fork(after_in_child=watcher.forget)
