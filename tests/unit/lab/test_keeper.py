"""A killed owner leaves no process, no temporary folder and no memory behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from children import until
from unstuck.lab import owner

OWNER = """
import pathlib, sys, time
from unstuck.lab import keeper, owner
from unstuck.lab.job import Job

folder = pathlib.Path(sys.argv[1])
keeper.remove_if_killed(folder / "removed")
job = Job(folder / "job", ["sh", "-c", "echo up; exec sleep 600"])
while job.stdout.read_text() != "up\\n":
    time.sleep(0.02)
print(owner.tag(), flush=True)
sys.stdin.readline()
job.kill()
"""


@pytest.fixture
def owning(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that has started a job under `unstuck run`."""
    (tmp_path / "removed").mkdir()
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", OWNER, str(tmp_path)]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.kill()


def tag_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def keeper_runs(process: subprocess.Popen[str]) -> bool:
    commands = (each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"]))
    return ["unstuck.lab.keeper", str(process.pid)] in [command[-2:] for command in commands]


def left_of(tag: str, folder: Path) -> set[str]:
    processes = {str(pid) for pid, mark in owner.marked(owner.MARKER) if mark.startswith(tag)}
    folders = {str(path) for path in folder.glob(f"{owner.PREFIX}*")}
    return processes | folders


def test_what_a_killed_owner_has_started_is_ended_and_removed(
    owning: subprocess.Popen[str], tmp_path: Path
):
    tag = tag_of(owning)
    (live,) = (link.readlink() for link in tmp_path.glob("job/run/live-*"))
    assert len(left_of(tag, tmp_path)) >= 3, "the launcher, its command and a temporary folder"

    os.kill(owning.pid, signal.SIGKILL)
    owning.wait()

    until(lambda: not keeper_runs(owning))
    assert not left_of(tag, tmp_path)
    assert not (tmp_path / "removed").exists()
    assert not live.exists()


def test_an_owner_that_exits_by_itself_keeps_its_folders(
    owning: subprocess.Popen[str], tmp_path: Path
):
    tag = tag_of(owning)
    assert owning.stdin is not None
    owning.stdin.write("\n")
    owning.stdin.flush()
    assert owning.wait(30) == 0
    until(lambda: not keeper_runs(owning))

    assert not left_of(tag, tmp_path)
    assert (tmp_path / "removed").exists()
