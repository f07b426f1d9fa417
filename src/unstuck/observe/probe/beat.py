"""The probe's helper thread: every 100 ms it writes into the page what it sees of this rank."""

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from unstuck.observe.probe import frames
from unstuck.observe.probe.calls.p2p import PointToPointLog
from unstuck.observe.probe.calls.roots import RootLog
from unstuck.observe.probe.ending import Ending
from unstuck.observe.probe.groups import Groups
from unstuck.observe.probe.page import PageWriter

PERIOD = 0.1
"""On average: looks at even intervals would always see the same moment of a regular step."""


class Beat:
    """Collects the report and writes it; survives any failure of its parts and names them."""

    def __init__(
        self,
        page: PageWriter,
        path: str,
        groups: Groups,
        log: PointToPointLog,
        about: dict[str, Any],
    ) -> None:
        self._page = page
        self._path = path
        self._groups = groups
        self._log = log
        self._about = about
        self.roots = RootLog()
        self._pid = os.getpid()
        self._main = threading.main_thread().ident or 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        # Its own generator: the script's stays untouched.
        self._random = random.Random()  # noqa: S311
        self._thread = threading.Thread(target=self._run, name="unstuck", daemon=True)
        self.ending = Ending(self.look, self.stop)
        self.phase = "start"
        self.left: dict[str, Any] | None = None
        self.problem = ""
        self.top = 0
        """The highest process with this rank's number; see `lineage`."""
        self.joined = False
        """It called `init_process_group`, so it is no helper."""
        self._last_written = False
        self.settings: Callable[[], dict[str, Any]] | None = None
        """What reads the timeouts in effect; set after init, and again after another one."""
        self.more: Callable[[], dict[str, Any]] | None = None
        """What else of this rank belongs on its page; set by `script.start`."""
        self.stacks: int | None = None
        """The open file that the stacks of all threads are written to when the agent asks."""
        self._answered = page.asked()

    def is_rank(self, rank: int, world_size: int) -> None:
        """Report under this number from now on: until here it was presumed."""
        self._about |= {"rank": rank, "world_size": world_size}

    def start(self) -> None:
        """Start the helper thread. A daemon: it never keeps the interpreter alive."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """End the helper thread; returns when it is gone, or after half a second."""
        self._over.set()
        self._thread.join(timeout=0.5)

    def _run(self) -> None:
        while not self._over.wait(PERIOD * (0.75 + 0.5 * self._random.random())):
            self.look()
            with contextlib.suppress(Exception):
                self._answer()

    def _answer(self) -> None:
        """Write down the stacks, if the agent has asked again. This thread has the GIL: safe."""
        asked = self._page.asked()
        if asked != self._answered and self.stacks is not None:
            self._answered = asked
            os.write(self.stacks, frames.of_all_threads().encode(errors="replace"))

    def look(self) -> None:
        """Write one report now. Skipped when another thread is at it, and in a fork."""
        if os.getpid() != self._pid or not self._lock.acquire(timeout=0.05):
            return
        try:
            now = time.monotonic()
            self._page.report(self._report(now))
            self._page.beat(now)
        except Exception as error:
            with contextlib.suppress(Exception):
                self._report_failure(f"{type(error).__name__}: {error}")
        finally:
            self._lock.release()

    def _report(self, now: float) -> dict[str, Any]:
        pending = self._log.look()
        if self._groups.look():
            self._publish_members()
        if self.settings is not None:
            tell, self.settings = self.settings, None
            with contextlib.suppress(Exception):
                self._write("settings", tell())
        if self.ending.failure and not self._last_written:
            self._last_written = True
            with contextlib.suppress(Exception):
                self._write("last", self._groups.last_operations())
        return {
            **self._about,
            "phase": self.ending.phase or self.phase,
            "joined": self.joined,
            "frames": frames.of_thread(self._main),
            "handling": frames.handled_by(self._main),
            "groups": self._groups.enqueued,
            "status": self._groups.status(),
            **self._groups.unrecorded(),
            "p2p": pending[-16:],
            "p2p_issued": self._log.total,
            "roots": self.roots.look(),
            "left": self.left,
            "failure": self.ending.failure,
            "exit_asked": self.ending.exit_asked,
            "problem": self.problem,
            **(self.more() if self.more else {}),
            "at": (now, *self._page.last_step()),
        }

    def _report_failure(self, problem: str) -> None:
        """Say what failed this time, and that Python code runs all the same."""
        phase = self.ending.phase or self.phase
        what = {"phase": phase, "joined": self.joined, "problem": self.problem or problem}
        self._page.report({**self._about, **what})
        self._page.beat(time.monotonic())

    def _publish_members(self) -> None:
        """Members change rarely and may be many: they have a file of their own."""
        self._write("groups", self._groups.members)

    def _write(self, ending: str, content: object) -> None:
        temporary = f"{self._path}.{ending}.new"
        with open(temporary, "w") as file:
            json.dump(content, file)
        os.replace(temporary, f"{self._path}.{ending}")
