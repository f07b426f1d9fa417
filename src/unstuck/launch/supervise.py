"""Run the launch command as if unstuck were not there: signals, input, output, exit code."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from unstuck.clock import SYSTEM, Clock
from unstuck.collect.agent.orders import STOP_FILE
from unstuck.console import say
from unstuck.errors import UserError
from unstuck.launch import leftovers
from unstuck.launch.command import LaunchCommand
from unstuck.launch.watchers import Watchers

_ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_PASSED = frozenset({signal.SIGUSR1, signal.SIGUSR2})
_WATCHED = _ENDING | _PASSED | {signal.SIGCHLD, signal.SIGALRM}
_FROM_TERMINAL = 0x80
"""si_code of a signal that the kernel made, as Ctrl-C does."""
_UNRESPONSIVE_AFTER = 2.0
_JUDGED_WITHIN = 2.0
"""Seconds until the death of a rank has a verdict, wherever the hub is."""
_MARGIN = 5.0
"""Seconds beyond those that the launcher itself gives its ranks after SIGTERM."""


class Stop(Struct, frozen=True):
    """What a policy asked for: to end the command with this code."""

    code: int
    why: str = ""
    grace: float = 0.0
    """How many seconds it may take to end by itself."""


def read_stop(live: Path) -> Stop | None:
    """Return what the agent left for us; None if there is nothing."""
    try:
        return msgspec.json.decode((live / STOP_FILE).read_bytes(), type=Stop)
    except (OSError, msgspec.MsgspecError):
        return None


class Supervisor:
    """Owns the launched process from start to end."""

    def __init__(
        self,
        command: LaunchCommand,
        env: Mapping[str, str],
        watchers: Watchers,
        greet: Callable[[], None],
        clock: Clock = SYSTEM,
    ) -> None:
        """Prepare; `greet` is called once the command has really started."""
        self._command = command
        self._argv = command.argv
        self._give_up_after = command.grace + _MARGIN
        self._greet = greet
        self._clock = clock
        self._env = env
        self._watchers = watchers
        self._mark = env[leftovers.MARK]
        self._live = Path(env["UNSTUCK_LIVE_DIR"])
        self._shares_terminal = os.isatty(0)
        # mpirun kills the group of what it has started: the rank has to be in it.
        self._own_group = not self._shares_terminal and not command.task
        self._pid = 0
        self._end_requested_at: float | None = None
        self._interrupted = False
        """Everything that the command has started got a SIGINT."""
        self._unresponsive: leftovers.Unresponsive | None = None
        self._stop: Stop | None = None
        self._stop_seen = 0.0
        self._obeys = env.get("UNSTUCK_OBEY") == "1"

    def run(self) -> int:
        """Start the command, pass everything through, and return its exit code.

        Raises:
            UserError: there is no such command.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        try:
            self._pid = self._spawn(before)
            self._greet()
            self._watchers.start()
            code = self._follow()
            self._clean_up(code)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        stop = self._stop or (read_stop(self._live) if self._obeys else None)
        if stop is not None and code != 0:
            return stop.code
        return code if code >= 0 else 128 - code

    def _spawn(self, mask: Iterable[int]) -> int:
        group: dict[str, Any] = {"setpgroup": 0} if self._own_group else {}
        command = self._argv[0]
        try:
            return os.posix_spawnp(command, self._argv, dict(self._env), setsigmask=mask, **group)
        except FileNotFoundError as error:
            raise UserError(
                f"there is no command {self._argv[0]}",
                hint="is the right virtual environment active?",
            ) from error
        except PermissionError as error:
            raise UserError(
                f"{self._argv[0]} may not be executed", hint=f"python {self._argv[0]} perhaps"
            ) from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(
                f"{self._argv[0]} cannot be started: {reason}",
                hint="a script needs a first line such as #!/usr/bin/env python",
            ) from error

    def _follow(self) -> int:
        """Wait for the command's end; return its exit code as subprocess writes it."""
        while True:
            info = _next_signal(0.25)
            if info is not None and info.si_signo != signal.SIGCHLD:
                self._pass_on(signal.Signals(info.si_signo), info.si_code)
            self._obey_stop()
            self._escalate()
            done = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if done is not None:
                return self._reap()
            self._watchers.check()

    def _reap(self) -> int:
        """Reap the command, after its exit code was passed on: it may be a rank itself."""
        done = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        if done is None:  # impossible: without WNOHANG it waits
            return 1
        code = done.si_status if done.si_code == os.CLD_EXITED else -done.si_status
        self._watchers.send("exit", self._pid, code)
        os.waitpid(self._pid, 0)
        return code

    def _pass_on(self, number: signal.Signals, code: int) -> None:
        if number in _ENDING:
            self._note_end_requested()
        if self._shares_terminal and code == _FROM_TERMINAL:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGINT and self._own_group:
                # As Ctrl-C does: the children of multiprocessing get none from their parent.
                self._interrupted = True
                os.killpg(self._pid, number)
            else:
                os.kill(self._pid, number)

    def _obey_stop(self) -> None:
        """End the command when a policy says so, as gently as a person would."""
        if self._end_requested_at is not None or not self._obeys:
            return
        if self._stop is None:
            self._stop = read_stop(self._live)
            self._stop_seen = self._clock.monotonic()
        if self._stop is not None and self._clock.monotonic() - self._stop_seen >= self._stop.grace:
            self._note_end_requested()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def _note_end_requested(self) -> None:
        self._watchers.send("stopping")
        if self._end_requested_at is None:
            self._end_requested_at = self._clock.monotonic()
            self._unresponsive = leftovers.Unresponsive(
                self._live, self._clock, several_nodes=self._command.several_nodes
            )
        else:
            self._kill_everything()

    def _escalate(self) -> None:
        """Every step towards the end has a limit; the last one always ends."""
        if self._end_requested_at is None:
            return
        elapsed = self._clock.monotonic() - self._end_requested_at
        if self._unresponsive is not None and elapsed > _UNRESPONSIVE_AFTER:
            self._unresponsive.end()
        if elapsed > self._give_up_after:
            self._kill_everything()

    def _kill_everything(self) -> None:
        for pid in leftovers.of_run(self._mark, self._ours()):
            leftovers.kill(pid)

    def _clean_up(self, code: int) -> None:
        """After an ordinary end, ranks that outlive the launcher are watched to their own end."""
        if self._end_requested_at is None and code >= 0:
            self._wait_for_ranks()
        else:
            self._let_ranks_save()
            ours = self._ours()
            count = leftovers.end_all(self._mark, ours, interrupted=self._interrupted)
            if count and self._end_requested_at is None:
                say(f"ended {count} processes that outlived {self._argv[0]}")
        self._watchers.finish()
        if self._command.task and code and self._end_requested_at is None:
            # The launcher ends all others now, and one of them may have the hub.
            self._clock.sleep(_JUDGED_WITHIN)

    def _let_ranks_save(self) -> None:
        """Give the time that is left to ranks that outlive a launcher which was asked to end."""
        if self._end_requested_at is not None and self._living_ranks():
            leftovers.ask(leftovers.of_run(self._mark, self._ours()))
            while self._living_ranks():
                info = _next_signal(0.25)
                if info is not None and info.si_signo in _ENDING:
                    self._kill_everything()
                self._escalate()
        if self._unresponsive is not None:
            self._unresponsive.close()

    def _wait_for_ranks(self) -> None:
        while self._living_ranks():
            info = _next_signal(0.25)
            if info is not None and info.si_signo in _ENDING:
                self._watchers.send("stopping")
                leftovers.end_all(self._mark, self._ours())
            self._watchers.check()

    def _living_ranks(self) -> bool:
        pids = {int(page.name.split(".")[1]) for page in self._live.glob("rank-*.page")}
        return bool(pids & set(leftovers.of_run(self._mark, self._ours()))) if pids else False

    def _ours(self) -> set[int]:
        return {os.getpid()} | self._watchers.pids()


def _next_signal(patience: float) -> signal.struct_siginfo | None:
    """Wait for a watched signal; None when none arrived in time.

    Not by sigtimedwait: where this process is stopped and continued meanwhile (Ctrl-Z, a
    suspended Slurm job), Python returns uninitialised memory from it.
    """
    signal.setitimer(signal.ITIMER_REAL, patience)
    info = signal.sigwaitinfo(_WATCHED)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if signal.SIGALRM in signal.sigpending():
        signal.sigwait({signal.SIGALRM})
    return None if info.si_signo == signal.SIGALRM else info
