"""What a killed lab left behind goes; what a living one uses stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unstuck.lab import owner
from unstuck.lab.owner import MARKER, PREFIX, workplace
from unstuck.lab.sweep import sweep


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this test see neither the folders nor the hosts and groups of others."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("unstuck.lab.hosts.sweep", list[str])
    monkeypatch.setattr("unstuck.lab.cgroups.sweep", list[str])


@pytest.fixture
def dead() -> str:
    """Give the tag of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait()
    return f"{child.pid}-1"


def sleeper(mark: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"]
    env = {**os.environ, MARKER: mark}
    child = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def test_processes_of_the_dead_are_killed_and_those_of_the_living_are_not(dead: str):
    with sleeper(f"{dead}-job") as orphan, sleeper(f"{owner.tag()}-job") as mine:
        assert sweep() == ["1 process"]

        assert orphan.wait(5) == -9
        assert mine.poll() is None
        mine.kill()


def test_folders_of_the_dead_go_with_the_memory_they_link_to(tmp_path: Path, dead: str):
    memory = tmp_path / "shm"
    memory.mkdir()
    left = tmp_path / f"{PREFIX}{dead}-abc" / "node0" / "run"
    left.mkdir(parents=True)
    (left / "live-host-1").symlink_to(memory)
    mine = workplace()

    assert sweep() == ["1 folder"]
    assert sorted(tmp_path.iterdir()) == [mine]


def test_nothing_to_do_is_nothing_said():
    assert sweep() == []
