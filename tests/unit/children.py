"""Child processes for the tests: they do what they are told, one line of Python at a time."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from unstuck.launch.run import environment
from unstuck.observe.node.process import procfs
from unstuck.observe.probe.page import PageWriter

T = TypeVar("T")

OBEY = """
import json, sys
for line in sys.stdin:
    try:
        answer = eval(line, globals())
    except SyntaxError:
        exec(line, globals())
        answer = None
    print("= " + json.dumps(answer, default=str), flush=True)
"""
PAGE = """
import faulthandler, os, signal, threading, time
from unstuck.observe.node.process import procfs
from unstuck.observe.probe import frames
from unstuck.observe.probe.page import PageWriter
base = os.path.join(os.environ["UNSTUCK_LIVE_DIR"], f"rank-{os.environ['RANK']}.{os.getpid()}")
stacks = open(base + ".stacks", "w")
faulthandler.register(signal.SIGRTMIN + 5, file=stacks, all_threads=False)
page = PageWriter(base + ".page")
about = dict(
    pid=os.getpid(), phase="run", attempt="a:1/0", started=time.monotonic(), world_size=2,
    stack_signal=int(signal.SIGRTMIN + 5), main_thread=threading.main_thread().ident,
    groups={"0": 3}, status={"0": [3, 3]},
)
def report(**fields):
    about.update(fields)
    page.report(about)
    page.beat(time.monotonic())
report()
def beat_for_ever():
    answered = 0
    while True:
        page.beat(time.monotonic())
        if page.asked() != answered:
            answered = page.asked()
            os.write(stacks.fileno(), frames.of_all_threads().encode())
        time.sleep(0.05)
"""
"""A child that has a page but no torch; `report(...)` changes what stands there."""
RANK = """
import ctypes, os, sys, threading, time
import torch
import torch.distributed as dist
import unstuck
"""
"""A child that is a rank of a torch job under the probe."""


def until(look: Callable[[], T], timeout: float = 20.0) -> T:
    """Wait until `look` returns something true, and return it."""
    deadline = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {look}"
        time.sleep(0.01)
    return found


class Child:
    """A process that evaluates the lines it is given and answers in JSON."""

    def __init__(
        self, folder: Path, prelude: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.script = folder / "script.py"
        self.script.write_text(prelude + OBEY)
        self._stderr = folder / "stderr"
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, str(self.script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(env) if env is not None else None,
                text=True,
                bufsize=1,
            )
        self.pid = self.process.pid

    def tell(self, line: str) -> None:
        """Give it a line and do not wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the answer to the oldest line that has none."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("= "):
                return json.loads(line[2:])
        raise AssertionError(f"it ended instead of answering:\n{self.said()}")

    def do(self, line: str) -> Any:
        """Give it a line and wait for the answer."""
        self.tell(line)
        return self.answer()

    def until_idle(self) -> None:
        """Wait until it sleeps, which it only does while it waits for the next line."""
        until(lambda: (found := procfs.stat(self.pid)) and found.state == "S")

    def leave(self) -> int:
        """Let it run to its end and return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(60)
        self._close()
        return code

    def said(self) -> str:
        """Return what it wrote to stderr."""
        return self._stderr.read_text(errors="replace")

    def end(self) -> None:
        """Kill it if it still lives."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


@contextmanager
def child(
    folder: Path, prelude: str = "", env: Mapping[str, str] | None = None
) -> Generator[Child, None, None]:
    """Start a child and leave nothing of it."""
    started = Child(folder, prelude, env)
    try:
        yield started
    finally:
        started.end()


def rank_env(live: Path, rank: int = 0, world_size: int = 1, port: int = 0) -> dict[str, str]:
    """Return the environment a rank has under `unstuck run`."""
    base = {key: value for key, value in os.environ.items() if not key.startswith("UNSTUCK_")}
    return environment(base, live) | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }


def write_page(live: Path, rank: int, pid: int, **report: Any) -> PageWriter:
    """Write the page of a process that is not a rank really."""
    page = PageWriter(str(live / f"rank-{rank}.{pid}.page"))
    now = time.monotonic()
    page.report({"phase": "run", "attempt": "a:1/0", "started": now, **report})
    page.beat(now)
    return page


def recorded(number: int, *, retired: bool = False, size: int = 4) -> dict[str, Any]:
    """An entry of the flight recorder as torch writes it."""
    return {
        "collective_seq_id": number,
        "process_group": ["0", "default_pg"],
        "profiling_name": "gloo:all_reduce",
        "time_created_ns": time.time_ns(),
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "state": "scheduled",
        "retired": retired,
        "is_p2p": False,
    }


@contextmanager
def recorder_of(page: Path, *entries: dict[str, Any]) -> Generator[None, None, None]:
    """Answer for the recorder of a child that has a page but no torch."""
    body = json.dumps({"entries": entries}).encode()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(page.with_suffix(".sock")))
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        mine = b"/fr_trace_json " in connection.recv(1 << 12)
                        status = b"200 OK" if mine else b"404 Not Found"
                        connection.sendall(b"HTTP/1.1 " + status + b"\r\n\r\n" + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)
