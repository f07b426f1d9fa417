"""`unstuck lab run` on real jobs: it judges rightly, and whatever ends it, nothing is left."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from unstuck.lab import owner
from unstuck.lab.job import UNSTUCK
from unstuck.lab.owner import MARKER, PREFIX
from unstuck.lab.sweep import sweep
from unstuck.observe.node.process import procfs

pytestmark = pytest.mark.system


class Lab:
    """One `unstuck lab run` and what it has made so far."""

    def __init__(self, *arguments: str) -> None:
        argv = [*UNSTUCK, "lab", "run", *arguments]
        pipe = subprocess.PIPE
        env = {**os.environ, "TMPDIR": tempfile.gettempdir()}
        self.process = subprocess.Popen(argv, text=True, stdout=pipe, stderr=pipe, env=env)
        self._makers: set[str] = set()

    def left(self) -> set[str]:
        """Name the processes, folders and hosts that it has made and not removed."""
        return set[str]().union(*(_made_by(tag) for tag in self._tags()))

    def _tags(self) -> set[str]:
        """Give the tags of the lab and of the processes that make runs for it."""
        with contextlib.suppress(psutil.NoSuchProcess):
            own = psutil.Process(self.process.pid)
            for pid in (own.pid, *(child.pid for child in own.children())):
                if started := procfs.stat(pid):
                    self._makers.add(f"{pid}-{started.started}")
        return self._makers

    def wait_for(self, look: Callable[[set[str]], bool]) -> None:
        deadline = time.monotonic() + 60
        while not look(self.left()):
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.1)


def _made_by(tag: str) -> set[str]:
    marked = {f"process {p}" for p, mark in owner.marked(MARKER) if mark.startswith(tag)}
    folders = {str(p) for p in Path(tempfile.gettempdir()).glob(f"{PREFIX}{tag}-*")}
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    mine = f"unstuck-{tag.split('-', maxsplit=1)[0]}-"
    return marked | folders | {n for n in listed.stdout.split() if n.startswith(mine)}


@pytest.fixture
def lab() -> Iterator[Callable[..., Lab]]:
    started: list[Lab] = []

    def begin(*arguments: str) -> Lab:
        started.append(Lab(*arguments))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.communicate()
    sweep()


def launchers_run(left: set[str]) -> bool:
    """Say whether there are hosts and something runs on both of them."""
    return sum(each.startswith("process") for each in left) >= 4


def ranks_run(left: set[str]) -> bool:
    """Say whether there is more than the launchers and what watches them."""
    return sum(each.startswith("process") for each in left) >= 10


def test_faults_are_injected_side_by_side_proven_and_judged(lab: Callable[..., Lab]) -> None:
    running = lab("stop-from-outside", "sigkill", "--jobs", "2", "--json")
    running.wait_for(lambda left: sum("-lab-" in each for each in left) == 4)
    out, err = running.process.communicate(timeout=100)

    assert running.process.returncode == 0, err
    result = json.loads(out)
    proofs = {run["scenario"]: run["proof"] for run in result["runs"]}
    assert proofs["stop-from-outside"] == "rank 2 is in state T"
    assert result["score"]["confusion"] == {
        "process-crash": {"process-crash": 1},
        "process-stopped": {"process-stopped": 1},
    }
    assert running.left() == set()


@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("ending", "code", "jobs"), [(signal.SIGINT, 130, "1"), (signal.SIGTERM, 143, "2")]
)
def test_an_interrupted_lab_leaves_nothing(
    lab: Callable[..., Lab], ending: signal.Signals, code: int, jobs: str
) -> None:
    running = lab("two-hosts", "--jobs", jobs)
    running.wait_for(ranks_run)
    running.process.send_signal(ending)
    time.sleep(0.2)
    running.process.send_signal(ending)

    assert running.process.wait(60) == code
    assert running.left() == set()


@pytest.mark.namespaces
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_killed_lab_leaves_nothing_either(lab: Callable[..., Lab], jobs: str) -> None:
    running = lab("two-hosts", "--jobs", jobs)
    running.wait_for(launchers_run)
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()

    deadline = time.monotonic() + 60
    while running.left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running.left() == set()
