"""The agent and hub processes of this node: started, restarted when they die, ended."""

import contextlib
import os
import shlex
import subprocess
import sys
from collections import defaultdict
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from unstuck.clock import SYSTEM, Clock
from unstuck.console import say
from unstuck.files import write_whole
from unstuck.launch.hubplace import HubPlace
from unstuck.launch.webpage import WebPage

_AT_ONCE = 5
"""So many restarts of a process are made at once; each is made good after `_ONE_MORE_AFTER`."""
_ONE_MORE_AFTER = 30.0


class Budget:
    """When a process that keeps dying is started again: soon, never for the last time.

    A job may run for weeks. What ends a watcher now and then must not use up its restarts, and
    one that dies at once must not use up the node.
    """

    def __init__(self) -> None:
        self._left = float(_AT_ONCE)
        self._counted_at = 0.0
        self.quiet = False
        """It was said that restarts are not said any more."""

    def take(self, now: float) -> bool:
        """Tell whether one more restart may be made now, and count it."""
        if self._counted_at:
            self._left = min(_AT_ONCE, self._left + (now - self._counted_at) / _ONE_MORE_AFTER)
        self._counted_at = now
        if self._left < 1:
            return False
        if self._left >= 2:
            self.quiet = False
        self._left -= 1
        return True


@dataclass(eq=False, repr=False)
class Watchers:
    """Never in the way of the job: what cannot be started or dies for good is reported, once."""

    run: Path
    live: Path
    host: str
    hub: HubPlace
    argv: tuple[str, ...]
    _: KW_ONLY
    nodes: int = 0
    as_json: bool = False
    recovery: Path | None = None
    """The file that says what may be done about a verdict."""
    page: WebPage | None = None
    """What shows the job to browsers."""
    clock: Clock = SYSTEM
    _budgets: defaultdict[str, Budget] = field(default_factory=lambda: defaultdict(Budget))
    _dead: set[str] = field(default_factory=set[str])
    """Those to be started again as soon as their budget allows."""
    _cannot: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _processes: dict[str, subprocess.Popen[bytes]] = field(
        default_factory=dict[str, subprocess.Popen[bytes]]
    )

    def start(self) -> None:
        """Start the hub if it belongs here, then the agent."""
        self._start("hub")
        self._start("agent")

    def check(self) -> None:
        """Restart what died."""
        for name, process in list(self._processes.items()):
            if process.poll() is not None:
                del self._processes[name]
                if process.stdin is not None:
                    process.stdin.close()
                self._start_again(name, process.returncode)
        for name in tuple(self._dead):
            if self._budgets[name].take(self.clock.monotonic()):
                self._dead.discard(name)
                self._start(name)
        if self.page is not None:
            self.page.attend(self.run, f"{self.hub.host}:{self.hub.port}", self.hub.token)

    def _start_again(self, name: str, code: int) -> None:
        budget = self._budgets[name]
        if budget.take(self.clock.monotonic()):
            if not budget.quiet:
                say(f"the {name} died (exit code {code}); restarting it")
            self._start(name)
            return
        self._dead.add(name)
        if not budget.quiet:
            budget.quiet = True
            say(
                f"the {name} died again (exit code {code}); the job continues without it. It is"
                f" started again every {_ONE_MORE_AFTER:.0f} s, which is not said each time"
            )

    def send(self, *words: object) -> None:
        """Send a message to the agent; it may be gone."""
        agent = self._processes.get("agent")
        if agent is not None and agent.stdin is not None:
            with contextlib.suppress(OSError):
                agent.stdin.write(" ".join(map(str, words)).encode() + b"\n")

    def finish(self) -> None:
        """Let them judge the end of the job, then end them; takes a few seconds at most."""
        self.send("ended")
        for name in ("agent", "hub"):
            if name in self._processes:
                process = self._processes[name]
                _end(process, patience=4.0)
                if process.stdin is not None:
                    process.stdin.close()
        if self.page is not None:
            self.page.end()

    def pids(self) -> set[int]:
        """Return the processes that are ours and not the job's."""
        pids = {process.pid for process in self._processes.values()}
        page = self.page.pid if self.page is not None else None
        return pids | ({page} if page else set[int]())

    def _start(self, name: str) -> None:
        try:
            if name == "agent":
                self._processes[name] = self._start_agent()
            elif self.hub.listener is not None:
                self._processes[name] = self._start_hub(self.hub.listener.fileno())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self._dead.add(name)
            if (name, reason) not in self._cannot:
                say(f"the {name} cannot be started ({reason}); the job continues without it")
            self._cannot.add((name, reason))
        # For people and scripts; the run directory may be full or gone by now.
        with contextlib.suppress(OSError):
            self._write_down()

    def _start_agent(self) -> subprocess.Popen[bytes]:
        return self._python(
            "unstuck.collect.agent.agent",
            *("--live", str(self.live), "--node", f"{self.host}/{os.getpid()}"),
            *("--host", self.host, "--hub", f"{self.hub.host}:{self.hub.port}"),
            *("--story", str(self.run / f"cut-off-{self.host}-{os.getpid()}.jsonl")),
            *("--nodes", str(self.nodes)),
            *(("--obey",) if self.recovery else ()),
            stdin=subprocess.PIPE,
        )

    def _start_hub(self, listener: int) -> subprocess.Popen[bytes]:
        return self._python(
            "unstuck.pipelines.live",
            *("--listener", str(listener), "--run", str(self.run), "--host", self.host),
            *("--command", shlex.join(self.argv), *(("--json",) if self.as_json else ())),
            *(("--recovery", str(self.recovery)) if self.recovery else ()),
            *(() if self.hub.may_act else ("--watch-only",)),
            stdin=subprocess.DEVNULL,
            pass_fds=(listener,),
        )

    def _python(
        self, module: str, *arguments: str, stdin: int | IO[bytes], pass_fds: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes]:
        env = {**os.environ, "UNSTUCK_TOKEN": self.hub.token}
        command = [sys.executable, "-m", module, *arguments]
        # A session of their own: Ctrl-C in the terminal is for the job. No buffer: what could
        # not be sent to a dead agent would be tried again, with an error, at the end.
        return subprocess.Popen(
            command, bufsize=0, stdin=stdin, env=env, pass_fds=pass_fds, start_new_session=True
        )

    def _write_down(self) -> None:
        pids = {name: process.pid for name, process in self._processes.items()}
        facts = {
            "pid": os.getpid(),
            "host": self.host,
            "command": self.argv,
            "hub": f"{self.hub.host}:{self.hub.port}",
            "agent_pid": pids.get("agent"),
            "hub_pid": pids.get("hub"),
            "live": str(self.live),
            "page": self.page.link.partition("?")[0] if self.page else None,
        }
        name = "unstuck.json" if "hub" in pids else f"unstuck-{self.host}-{os.getpid()}.json"
        write_whole(self.run / name, msgspec.json.format(msgspec.json.encode(facts)) + b"\n")


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    for act, seconds in ((None, patience), (process.terminate, 1.0), (process.kill, 1.0)):
        if act is not None:
            act()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
