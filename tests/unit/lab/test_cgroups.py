"""Control groups of the lab: made where the machine allows it, gone afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest

from unstuck.lab import cgroups
from unstuck.lab.cgroups import Cgroup, why_not


@pytest.fixture
def child():
    argv = [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def freezer() -> Cgroup:
    if reason := why_not("freezer"):
        pytest.skip(reason)
    return Cgroup("freezer")


def test_a_member_is_let_out_when_the_group_goes(child: subprocess.Popen[bytes]):
    with freezer() as group:
        group.add(child.pid)
        assert str(child.pid) in group.read("cgroup.procs").split()

    assert not group.path.exists()
    assert child.poll() is None


def test_a_frozen_member_is_thawed_when_the_group_goes(child: subprocess.Popen[bytes]):
    with freezer() as group:
        group.add(child.pid)
        first = group.version == 1
        group.write("freezer.state" if first else "cgroup.freeze", "FROZEN" if first else "1")

    child.terminate()
    assert child.wait(5) == -15


def test_groups_of_the_dead_are_swept_and_those_of_the_living_are_not(
    monkeypatch: pytest.MonkeyPatch,
):
    with freezer() as mine:
        monkeypatch.setattr("unstuck.lab.owner.tag", lambda: "1999999999-1")
        left = freezer()

        assert cgroups.sweep() == [left.path.name]
        assert mine.path.exists()
        assert not left.path.exists()


def test_a_machine_without_control_groups_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")
    monkeypatch.setattr(cgroups, "_MOUNTS", tmp_path / "mounts")
    why_not.cache_clear()

    assert why_not("cpu") == (
        "no control group with cpu can be created: no cgroup file system is mounted"
    )
    why_not.cache_clear()
