"""What a rank reports about itself, and what the kernel knows about one that is silent."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
import torch

import unstuck
from unstuck import dist
from unstuck.dist.base import groups, held
from unstuck.dist.base.calls import Call
from unstuck.dist.missing import answers


def test_a_rank_reports_its_line_and_how_far_it_got(world: Any) -> None:
    dist.all_reduce(torch.ones(1))
    found = answers.answer("0")
    assert found["index"] == groups.describe(world).collectives()
    assert (found["runs"], found["torch"], found["gave_up"]) == ([], "", False)
    assert found["line"] > 0
    assert os.path.basename(found["file"]) in found["doing"]


def test_an_unknown_group_has_no_number(world: Any) -> None:
    assert answers.answer("no such group")["index"] == -1


def test_it_names_the_operation_and_the_section_it_is_in(world: Any) -> None:
    call = Call("all_gather", groups.describe(world), 1.0, 1.0, number=4)
    with unstuck.section("evaluation"), held.waiting(call):
        found = answers.answer("0")
    assert found["doing"].startswith(
        "in section 'evaluation', waiting in all_gather #4 on group '0',"
    )
    assert found["runs"] == ["all_gather #4"]


def record(pid: int) -> dict[str, Any]:
    return {"pid": pid, "started": answers.started(pid), "machine": answers.machine()}


def test_the_kernel_tells_running_stopped_and_gone_apart() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = record(child.pid)
    assert answers.state_of(known)[0] == "running"
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert answers.state_of(known) == (
        "stopped",
        f"stopped, e.g. by SIGSTOP (process {child.pid})",
    )
    child.kill()
    child.communicate()
    assert answers.state_of(known) == ("gone", f"gone, its process {child.pid} has ended")


@pytest.mark.parametrize("machine", ["another machine", None])
def test_nothing_is_known_about_processes_of_another_machine(machine: str | None) -> None:
    assert answers.state_of({**record(os.getpid()), "machine": machine}) == ("", "")


def test_a_pid_that_was_reused_is_another_process() -> None:
    assert answers.state_of({**record(os.getpid()), "started": "1"})[0] == "gone"
