"""The agent and hub processes of this node: started, restarted when they die, ended."""

import contextlib
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import msgspec

from unstuck.console import say
from unstuck.launch.hubplace import HubPlace

_MOST_RESTARTS = 3


class Watchers:
    """Never in the way of the job: what cannot be started or dies for good is said, once."""

    def __init__(  # noqa: PLR0913 - all of it is written on two command lines
        self,
        run: Path,
        live: Path,
        host: str,
        hub: HubPlace,
        argv: tuple[str, ...],
        *,
        nodes: int = 0,
        as_json: bool = False,
        recovery: Path | None = None,
    ) -> None:
        """Prepare; `recovery` is the file that says what may be done about a verdict."""
        self._recovery = recovery
        self._nodes = nodes
        self._run = run
        self._live = live
        self._host = host
        self._hub = hub
        self._argv = argv
        self._as_json = as_json
        self._restarts = 0
        self._agent: subprocess.Popen[bytes] | None = None
        self._hub_process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the hub if it belongs here, then the agent."""
        self._start("hub")
        self._start("agent")

    def check(self) -> None:
        """Start again what died."""
        for name, process in (("agent", self._agent), ("hub", self._hub_process)):
            if process is None or process.poll() is None:
                continue
            self._restarts += 1
            if self._restarts > _MOST_RESTARTS:
                say(f"the {name} died again; the job runs on without it")
                self._forget(name)
                continue
            say(f"the {name} died (exit code {process.returncode}); starting it again")
            self._forget(name)
            self._start(name)

    def tell(self, *words: object) -> None:
        """Say something to the agent; it may be gone."""
        if self._agent is not None and self._agent.stdin is not None:
            with contextlib.suppress(OSError):
                self._agent.stdin.write(" ".join(map(str, words)).encode() + b"\n")
                self._agent.stdin.flush()

    def finish(self) -> None:
        """Let them judge the end of the job, then end them; takes seconds at the most."""
        self.tell("ended")
        for process in (self._agent, self._hub_process):
            if process is not None:
                _end(process, patience=4.0)

    def pids(self) -> set[int]:
        """The processes that are ours and not the job's."""
        return {p.pid for p in (self._agent, self._hub_process) if p is not None}

    def _start(self, name: str) -> None:
        try:
            if name == "agent":
                self._agent = self._start_agent()
            elif self._hub.listener is not None:
                self._hub_process = self._start_hub(self._hub.listener.fileno())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            say(f"the {name} cannot be started ({reason}); the job runs on without it")
        # For people and scripts; the run directory may be full or gone by now.
        with contextlib.suppress(OSError):
            self._write_down()

    def _forget(self, name: str) -> None:
        if name == "agent":
            if self._agent is not None and self._agent.stdin is not None:
                self._agent.stdin.close()
            self._agent = None
        else:
            self._hub_process = None

    def _start_agent(self) -> subprocess.Popen[bytes]:
        return self._python(
            "unstuck.collect.agent",
            *("--live", str(self._live), "--node", f"{self._host}/{os.getpid()}"),
            *("--host", self._host, "--hub", f"{self._hub.host}:{self._hub.port}"),
            *("--story", str(self._run / f"cut-off-{self._host}-{os.getpid()}.jsonl")),
            *("--nodes", str(self._nodes)),
            *(("--obey",) if self._recovery else ()),
            stdin=subprocess.PIPE,
        )

    def _start_hub(self, listener: int) -> subprocess.Popen[bytes]:
        return self._python(
            "unstuck.pipeline",
            *("--listener", str(listener), "--run", str(self._run), "--host", self._host),
            *("--command", shlex.join(self._argv), *(("--json",) if self._as_json else ())),
            *(("--recovery", str(self._recovery)) if self._recovery else ()),
            stdin=subprocess.DEVNULL,
            pass_fds=(listener,),
        )

    def _python(
        self, module: str, *arguments: str, stdin: int | IO[bytes], pass_fds: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes]:
        env = {**os.environ, "UNSTUCK_TOKEN": self._hub.token}
        command = [sys.executable, "-m", module, *arguments]
        # A session of their own: Ctrl-C in the terminal is for the job. No buffer: what could
        # not be told to a dead agent would be tried again, with an error, at the end.
        return subprocess.Popen(
            command, bufsize=0, stdin=stdin, env=env, pass_fds=pass_fds, start_new_session=True
        )

    def _write_down(self) -> None:
        hub = self._hub_process
        facts = {
            "pid": os.getpid(),
            "host": self._host,
            "command": self._argv,
            "hub": f"{self._hub.host}:{self._hub.port}",
            "agent_pid": self._agent.pid if self._agent else None,
            "hub_pid": hub.pid if hub else None,
            "live": str(self._live),
        }
        name = "unstuck.json" if hub else f"unstuck-{self._host}-{os.getpid()}.json"
        temporary = self._run / f".{name}.new"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(facts)) + b"\n")
        temporary.replace(self._run / name)


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    deadline = time.monotonic() + patience
    for act in (None, process.terminate, process.kill):
        if act is not None:
            act()
            deadline = time.monotonic() + 1.0
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            continue
        return
