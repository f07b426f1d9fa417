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
from unstuck.lab.job import MARKER, UNSTUCK
from unstuck.lab.sweep import PREFIX, sweep
from unstuck.observe.node import procfs

pytestmark = pytest.mark.system


class Lab:
    """One `unstuck lab run` and what it has made so far."""

    def __init__(self, *arguments: str) -> None:
        argv = [*UNSTUCK, "lab", "run", *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, text=True, stdout=pipe, stderr=pipe)
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


def ranks_run(left: set[str]) -> bool:
    """Say whether there is more than the launchers and what watches them."""
    return sum(each.startswith("process") for each in left) >= 10


def test_a_fault_from_outside_is_injected_proven_and_judged(lab: Callable[..., Lab]) -> None:
    running = lab("stop-from-outside", "--json")
    out, err = running.process.communicate(timeout=100)

    assert running.process.returncode == 0, err
    result = json.loads(out)
    assert result["runs"][0]["proof"] == "rank 2 is in state T"
    assert result["score"]["confusion"] == {"process-stopped": {"process-stopped": 1}}
    assert running.left() == set()


def test_jobs_run_side_by_side(lab: Callable[..., Lab]) -> None:
    running = lab("sigkill", "exception", "--jobs", "2", "--json")
    running.wait_for(lambda left: sum("-lab-" in each for each in left) == 2)
    out, err = running.process.communicate(timeout=100)

    assert running.process.returncode == 0, err
    assert {run["scenario"] for run in json.loads(out)["runs"]} == {"sigkill", "exception"}
    assert running.left() == set()


@pytest.mark.namespaces
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(("ending", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
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
def test_what_a_killed_lab_leaves_is_swept_by_the_next(lab: Callable[..., Lab]) -> None:
    running = lab("two-hosts")
    running.wait_for(ranks_run)
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()
    assert running.left()

    swept = " ".join(sweep())
    assert "processes" in swept
    assert "hosts" in swept
    deadline = time.monotonic() + 10
    while running.left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running.left() == set()
