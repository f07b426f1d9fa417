"""`unstuck.watch()` in a script that nobody watches yet: one process beside the ranks of a node."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from children import Child, child, until
from unstuck.launch.beside import describe
from unstuck.observe.node.process import procfs

RANK = """
import os, sys
import unstuck
import unstuck.script.watch
sys.modules["unstuck.script.watch"]._LOOK_EVERY = 0.1
def watch():
    return unstuck.watch(run_dir=os.environ["RUN_DIR"])
def there():
    return sorted(unstuck.peers().ranks)
"""


def env(folder: Path, rank: int, port: str) -> dict[str, str]:
    base = {key: value for key, value in os.environ.items() if not key.startswith("UNSTUCK_")}
    return base | {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
        "RUN_DIR": str(folder / "run"),
    }  # fmt: skip


@pytest.fixture
def port() -> str:
    """Give a number that no other job of this user has for its rendezvous."""
    return f"7{os.getpid()}{time.monotonic_ns() % 1000}"


@pytest.fixture
def ranks(tmp_path: Path, port: str) -> Iterator[list[Child]]:
    with (
        child(tmp_path / "0", RANK, env(tmp_path, 0, port)) as first,
        child(tmp_path / "1", RANK, env(tmp_path, 1, port)) as second,
    ):
        yield [first, second]


def beside(port: str) -> list[int]:
    """Find the processes beside the ranks of this job."""
    found = subprocess.run(
        ["pgrep", "-f", "unstuck.launch.beside"], capture_output=True, text=True, check=False
    )
    return [pid for pid in map(int, found.stdout.split()) if f"MASTER_PORT={port}" in environ(pid)]


def environ(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text().split("\0")
    except OSError:
        return []


def test_ranks_of_a_node_find_each_other_and_leave_nothing(ranks: list[Child], port: str):
    for rank in ranks:
        assert rank.do("watch()") is True
    until(lambda: ranks[0].do("there()") == [0, 1], 60)
    assert len(beside(port)) == 1
    live = Path(ranks[0].do("os.environ['UNSTUCK_LIVE_DIR']"))
    assert live.stat().st_mode & 0o777 == 0o700
    assert ranks[1].do("watch()") is True, "a second call changes nothing"
    (pid,) = beside(port)
    os.kill(pid, signal.SIGKILL)
    until(lambda: beside(port) not in ([], [pid]), 30)
    until(lambda: ranks[1].do("there()") == [0, 1], 60)
    ranks[0].do("import torch.distributed as dist")
    assert "unstuck" in ranks[0].do("dist.init_process_group.__code__.co_filename")
    assert [rank.leave() for rank in ranks] == [0, 0]
    until(lambda: not beside(port) and not live.exists(), 60)


def test_directory_of_somebody_else_is_not_used(tmp_path: Path, port: str):
    with child(tmp_path, RANK, env(tmp_path, 0, port)) as rank:
        rank.do("from unstuck.script import watch as module")
        live = Path(rank.do("module._live_directory()"))
        live.chmod(0o755)
        assert rank.do("watch()") is False
        assert f"rank 0: cannot be watched (PermissionError: {live} is not a private" in rank.said()
        assert rank.do("1 + 1") == 2
        live.rmdir()
    assert procfs.stat(rank.pid) is None


@pytest.mark.parametrize(
    ("env", "several"),
    [
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, True),
        ({"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}, False),
        ({"WORLD_SIZE": "4"}, False),
        ({"WORLD_SIZE": "4", "SLURM_NNODES": "2"}, True),
        ({}, False),
    ],
)
def test_several_nodes_are_known_by_the_environment(env: dict[str, Any], several: bool):
    found = describe("dir/train.py", {"MASTER_ADDR": "node0", **env})
    assert (found.several_nodes, found.master, found.name) == (several, "node0", "train")


def test_all_nodes_of_a_job_derive_the_same_token():
    shared = {"MASTER_ADDR": "node0", "MASTER_PORT": "29400", "TORCHELASTIC_RUN_ID": "x"}
    one = describe("train.py", {**shared, "RANK": "0"})
    other = describe("train.py", {**shared, "RANK": "5"})
    assert one.job == other.job
    assert one.job != describe("train.py", {**shared, "MASTER_PORT": "1"}).job
