"""Ranks that nobody gave RANK: named by who started them until the script says its number."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from children import rank_env, until
from unstuck.observe.probe.page import PageReader
from unstuck.observe.probe.presumed import by_launcher

MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
SLURM = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}
SPAWNED = """
import sys, time
import torch.distributed as dist
import torch.multiprocessing as mp

def work(index, port):
    if index == 1:
        time.sleep(600)  # stuck before it joins; the test ends it
    method = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=method, rank=2 - index, world_size=3)

if __name__ == "__main__":
    mp.spawn(work, args=(sys.argv[1],), nprocs=2)
"""


@pytest.mark.parametrize(
    ("env", "task"),
    [
        (MPI, (1, 4)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2)),
        ({"UNSTUCK_TASK": "3/4", **MPI}, (3, 4)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, None),
        (SLURM, None),
        ({}, None),
    ],
    ids=["Open MPI", "MPICH", "unstuck run", "one task", "a Slurm script, no task", "nobody"],
)
def test_number_that_a_launcher_gives(env: dict[str, str], task: tuple[int, int] | None):
    assert by_launcher(env) == task


def test_spawned_rank_is_seen_before_it_joins_and_has_its_own_number_then(tmp_path: Path):
    (tmp_path / "spawned.py").write_text(SPAWNED)
    env = rank_env(tmp_path)
    del env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"]
    command = [sys.executable, str(tmp_path / "spawned.py"), "29"]
    parent = subprocess.Popen(command, env=env, start_new_session=True)
    try:
        first, second = until(lambda: both(tmp_path), timeout=90)
        until(lambda: report(first)["phase"] == "init")

        assert report(first)["rank"] == 2
        assert report(first)["world_size"] == 3
        assert report(second)["phase"] == "start"
        until(lambda: any("spawned.py" in frame[0] for frame in report(second)["frames"]))
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


def both(live: Path) -> list[Path]:
    pages = sorted(live.glob("rank-*.page"))
    return pages if len(pages) == 2 else []


def report(page: Path) -> dict[str, Any]:
    reader = PageReader(str(page))
    try:
        return until(lambda: reader.read().report)
    finally:
        reader.close()
