"""A parent for a rank, for trainings with `@unstuck.resilient`.

A launcher that sees one rank end ends all the others. Between it and the rank stands this process:
it passes signals on and ends as the rank does, but when the rank dies in the middle of a resilient
training, it starts it again by itself, and the launcher sees nothing.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from types import FrameType

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_LIVED = 5.0
"""A rank that dies sooner than this would only die again."""
_SET_PARENT_DEATH_SIGNAL = 1


def mark_path(rank: int | str) -> str | None:
    """Return the file that is there while a rank is in a resilient training."""
    live = os.environ.get("UNSTUCK_LIVE_DIR")
    return os.path.join(live, f"resilient-{rank}") if live else None


def stand_before(times: int) -> None:
    """Fork: the child returns and continues as the rank, the parent guards it and never returns."""
    os.environ.pop("UNSTUCK_RESPAWN", None)
    _forget_mark()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _die_with(parent)
        return
    try:
        _Guard(pid, times).watch()
    finally:
        os._exit(1)


def _forget_mark() -> None:
    """Remove what an earlier attempt has left: this rank has not begun to train."""
    mark = mark_path(os.environ["RANK"])
    if mark:
        with contextlib.suppress(OSError):
            os.unlink(mark)


class _Guard:
    def __init__(self, pid: int, times: int) -> None:
        self._pid = pid
        self._left = times
        self._ending = False
        self._born = time.monotonic()
        for number in PASSED_ON:
            signal.signal(number, self._pass_on)

    def watch(self) -> None:
        """Wait for the rank, and end as it does."""
        while True:
            _, status = os.waitpid(self._pid, 0)
            code = os.waitstatus_to_exitcode(status)
            if code == 0 or not self._may_start_again():
                _end(code)
            self._start_again(code)

    def _may_start_again(self) -> bool:
        mark = mark_path(os.environ["RANK"])
        lived = time.monotonic() - self._born > _LIVED
        return not self._ending and self._left > 0 and lived and bool(mark and os.path.exists(mark))

    def _start_again(self, code: int) -> None:
        self._left -= 1
        self._born = time.monotonic()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        text = f"unstuck: rank {os.environ['RANK']} ended ({how}); starting it again by itself\n"
        os.write(2, text.encode())
        guard = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            for number in PASSED_ON:
                signal.signal(number, signal.SIG_DFL)
            _die_with(guard)
            env = {**os.environ, "UNSTUCK_RESPAWNED": "1"}
            os.execve(sys.executable, sys.orig_argv, env)  # noqa: S606 - the rank's own command

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        self._ending = True
        try:
            os.kill(self._pid, number)
        except ProcessLookupError:
            return


def _end(code: int) -> None:
    """End as the rank did, for whoever waits for this process."""
    if code < 0:
        number = -code
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(1)
    os._exit(code if code >= 0 else 1)


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its guard is gone."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
