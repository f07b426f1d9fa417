"""The agent and hub processes of this node: started, restarted when they die, ended."""

import contextlib
import os
import shlex
import subprocess
import sys
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from unstuck.console import say
from unstuck.files import write_whole
from unstuck.launch.hubplace import HubPlace

_MOST_RESTARTS = 3


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
    _restarts: int = 0
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
            if process.poll() is None:
                continue
            del self._processes[name]
            if process.stdin is not None:
                process.stdin.close()
            self._restarts += 1
            if self._restarts > _MOST_RESTARTS:
                say(f"the {name} died again; the job continues without it")
            else:
                say(f"the {name} died (exit code {process.returncode}); restarting it")
                self._start(name)

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
                _end(self._processes[name], patience=4.0)

    def pids(self) -> set[int]:
        """Return the processes that are ours and not the job's."""
        return {process.pid for process in self._processes.values()}

    def _start(self, name: str) -> None:
        try:
            if name == "agent":
                self._processes[name] = self._start_agent()
            elif self.hub.listener is not None:
                self._processes[name] = self._start_hub(self.hub.listener.fileno())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            say(f"the {name} cannot be started ({reason}); the job continues without it")
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
