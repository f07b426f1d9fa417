"""`unstuck attach` on jobs of plain torchrun, and on one that must not notice it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from children import until
from jobs import unwatched
from unstuck.lab.job import LAUNCHER, UNSTUCK
from unstuck.observe.outside.looks import Looks
from unstuck.observe.outside.rank_processes import RankProcess, find

pytestmark = pytest.mark.system

HEAD = """
import os, sys, time, torch, torch.distributed as dist
from pathlib import Path
dist.init_process_group("gloo")
rank, folder = dist.get_rank(), Path(sys.argv[1])
def mark():
    (folder / f"there-{rank}").touch()
"""
HANGS = """
def load(step):
    if step == 5 and rank == 1:
        mark()
        time.sleep(600)  # the hang that is looked into; the test ends the job
for step in range(10**9):
    load(step)
    if step == 5:
        mark()
    dist.all_reduce(torch.ones(4))
"""
TRAINS = """
for step in range(10**9):
    dist.all_reduce(torch.ones(4))
    if rank == 0 and step % 20 == 0:
        (folder / "steps.new").write_text(str(step))
        (folder / "steps.new").rename(folder / "steps")
    mark()
"""
Start = Callable[[str], int]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a job of two ranks by plain torchrun; return the launcher's pid once it is there."""
    jobs: list[subprocess.Popen[bytes]] = []

    def begin(body: str) -> int:
        (tmp_path / "train.py").write_text(HEAD + body)
        command = [*LAUNCHER, "--standalone", "--nproc-per-node", "2", "train.py", str(tmp_path)]
        with (tmp_path / "log").open("wb") as log:
            jobs.append(
                subprocess.Popen(command, cwd=tmp_path, env=unwatched(), stdout=log, stderr=log)
            )
        until(lambda: all((tmp_path / f"there-{rank}").exists() for rank in range(2)), 90)
        return jobs[-1].pid

    yield begin
    for job in jobs:
        ranks = [one.pid for ranks in _jobs(job.pid).values() for one in ranks]
        for pid in (*ranks, job.pid):
            os.kill(pid, signal.SIGKILL)
        job.wait()


def attach(*words: object) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [*UNSTUCK, "attach", "--json", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=unwatched(),
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_a_job_that_hangs_and_was_not_prepared_is_explained(start: Start) -> None:
    launcher = start(HANGS)

    code, found, said = attach(launcher, "--patience", "3s", "--stacks")

    assert code == 1, said
    verdict = found["verdict"]
    assert verdict["cause"] == "busy-elsewhere"
    assert [(one["rank"], one["function"]) for one in verdict["culprits"]] == [(1, "load")]
    assert verdict["victims"] == [0]
    assert verdict["stuck"]["op"] == "all_reduce"
    assert found["attached"]["stacks"]["count"] == 2

    bare = _without_home_and_anywhere_to_write(launcher)
    assert bare.returncode == 1, bare.stderr
    assert "rank 1  is asleep" in bare.stdout


def test_a_stopped_rank_is_seen_and_stays_as_it_is(start: Start) -> None:
    launcher = start(TRAINS)
    [ranks] = _jobs(launcher).values()
    os.kill(ranks[1].pid, signal.SIGSTOP)

    code, found, said = attach(ranks[0].pid, "--patience", "3s")

    assert code == 1, said
    assert found["verdict"]["cause"] == "process-stopped"
    assert [one["rank"] for one in found["verdict"]["culprits"]] == [1]


def test_a_training_that_is_looked_at_again_and_again_goes_on(start: Start, tmp_path: Path) -> None:
    launcher = start(TRAINS)

    def steps() -> int:
        return int((tmp_path / "steps").read_text())

    code, found, _ = attach(launcher)
    assert (code, found["verdict"], found["attached"]["moves"]) == (0, None, True)

    [ranks] = _jobs(launcher).values()
    for _ in range(20):
        before = steps()
        looks = Looks(ranks, "here")
        looks.again()
        assert not looks.problems
        assert [one.process.rank for one in looks.watched] == [0, 1]
        until(lambda before=before: steps() > before)


def _jobs(pid: int) -> dict[str, list[RankProcess]]:
    return find([pid])


def _without_home_and_anywhere_to_write(launcher: int) -> "subprocess.CompletedProcess[str]":
    read_only = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -o remount,ro,bind / / && exec "$@"',
        "sh",
    ]
    return subprocess.run(
        [
            *(read_only if os.geteuid() == 0 else ()),
            *(sys.executable, "-m", "unstuck", "attach", str(launcher), "--patience", "3s"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in unwatched().items() if name not in ("HOME", "TMPDIR")},
    )
