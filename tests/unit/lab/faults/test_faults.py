"""A fault takes effect on the process it is meant for, proves that it did, and is taken back."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from unstuck.errors import JobOverdueError, LabError
from unstuck.lab.faults import AnyFault, Fired, Injection
from unstuck.lab.faults.cpu_hog import CpuHog
from unstuck.lab.faults.cut import Cut
from unstuck.lab.faults.disk_hog import DiskHog
from unstuck.lab.faults.freeze import Freeze
from unstuck.lab.faults.kill import Kill
from unstuck.lab.faults.kill_launcher import KillLauncher
from unstuck.lab.faults.stop import Stop
from unstuck.lab.faults.throttle import Throttle
from unstuck.lab.faults.trace import Trace
from unstuck.lab.world import World
from unstuck.observe.node.process import procfs

SPIN = "print(flush=True)\nwhile True: pass"
PARENT = """
import os, subprocess, sys
for rank in (0, 2):
    subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={**os.environ, "RANK": str(rank)})
sys.stdin.read()
"""


class Crew:
    """A launcher with ranks 0 and 2, and one child of rank 2 that inherits its name."""

    def __init__(self) -> None:
        spawn = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']); "
        argv = [sys.executable, "-c", PARENT, spawn + SPIN]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.launcher = subprocess.Popen(argv, **pipes, start_new_session=True)
        assert self.launcher.stdout is not None
        for _ in range(2):
            self.launcher.stdout.readline()

    def pids(self) -> set[int]:
        """Find all its processes, as `Job.pids` does."""
        found: set[int] = set()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.getsid(int(folder.name)) == self.launcher.pid:
                    found.add(int(folder.name))
            except ProcessLookupError:
                continue
        return found

    def end(self) -> None:
        for pid in self.pids():
            os.kill(pid, 9)
        self.launcher.communicate()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    crew = Crew()
    yield World(tmp_path, (cast("Any", crew),))
    crew.end()


def wait_for(look: Callable[[], Fired | None]) -> Fired:
    deadline = time.monotonic() + 20
    while (fired := look()) is None:
        assert time.monotonic() < deadline, "the fault never fired"
        time.sleep(0.02)
    return fired


def inject(fault: AnyFault, world: World) -> tuple[Injection, Fired]:
    if reason := fault.why_not():
        pytest.skip(reason)
    before = time.time()
    injection = fault.inject(world)
    fired = wait_for(injection.look)
    assert before <= fired.at <= time.time()
    assert fired.count >= 1
    return injection, fired


def state(pid: int) -> str:
    found = procfs.stat(pid)
    return found.state if found else "gone"


def test_a_rank_is_found_and_not_the_child_that_inherits_its_name(world: World):
    ranks = world.ranks()

    assert sorted(ranks) == [0, 2]
    assert {procfs.stat(pid).parent for pid in ranks.values()} == {world.launcher()}  # type: ignore[union-attr]


def test_a_rank_that_is_not_there_is_said(world: World):
    with pytest.raises(JobOverdueError, match="rank 7 has no process"):
        Stop(rank=7).inject(world)


def test_stop_stops_one_rank_and_lets_it_go_again(world: World):
    injection, fired = inject(Stop(rank=2), world)

    assert fired.how == "rank 2 is in state T"
    assert state(world.pid(0)) != "T"
    injection.undo()
    deadline = time.monotonic() + 5
    while state(world.pid(2)) == "T":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_debugger_holds_one_rank_until_it_leaves(world: World):
    pid = world.pid(2)
    injection, fired = inject(Trace(rank=2), world)

    assert fired.how == "rank 2 is in state t"
    injection.undo()
    assert cpu_in(0.3, pid) > 0


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV"])
def test_kill_ends_one_rank(world: World, name: Any):
    injection, fired = inject(Kill(rank=2, signal=name), world)

    assert fired.how == f"rank 2 ended after {name}"
    assert state(world.pid(0)) == "R"
    injection.undo()
    injection.undo()


def test_freeze_holds_one_rank_and_thaws_it(world: World):
    pid = world.pid(2)
    injection, _ = inject(Freeze(rank=2), world)
    assert cpu_in(0.3, pid) == 0

    injection.undo()
    injection.undo()
    assert cpu_in(0.3, pid) > 0


def test_throttle_holds_one_rank_back(world: World):
    injection, fired = inject(Throttle(rank=2, share=0.05), world)
    assert fired.count >= 3
    assert cpu_in(1.0, world.pid(2)) < 0.5

    injection.undo()


def test_hogs_take_the_core_of_one_rank_and_go(world: World):
    injection, fired = inject(CpuHog(rank=2, processes=3), world)

    assert fired.how.startswith("rank 2 waited ")
    assert os.sched_getaffinity(world.pid(2)).isdisjoint(os.sched_getaffinity(world.pid(0)))
    injection.undo()
    injection.undo()


def test_hogs_write_beside_the_job_and_take_their_files_away(world: World):
    injection, fired = inject(DiskHog(processes=1, megabytes=4), world)

    assert fired.how.endswith("MB written beside the job")
    injection.undo()
    assert list(world.folder.iterdir()) == []


def test_the_launcher_is_killed_and_its_ranks_are_not(world: World):
    ranks = world.ranks()
    injection, _ = inject(KillLauncher(host=0), world)

    assert [state(pid) for pid in ranks.values()] == ["R", "R"]
    injection.undo()


def test_a_network_fault_in_a_job_without_hosts_is_refused(world: World):
    with pytest.raises(LabError, match="needs hosts"):
        Cut(host=1).inject(world)


def test_a_fault_says_whom_it_strikes():
    assert (Stop(rank=1).where(), Cut(host=2).where()) == ("rank 1", "node2")
    assert CpuHog(rank="all").where() == "all ranks"


def cpu_in(seconds: float, pid: int) -> float:
    before = procfs.thread_cpu(pid)
    time.sleep(seconds)
    return procfs.thread_cpu(pid) - before
