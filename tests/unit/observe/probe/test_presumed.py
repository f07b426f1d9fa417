"""Ranks that nobody gave RANK: named by who started them until the script says its number."""

from pathlib import Path

import pytest

from children import child, rank_env, until
from unstuck.observe.probe.page import PageReader
from unstuck.observe.probe.presumed import by_launcher

MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
SLURM = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}
PARENT = "import sys; sys.path.insert(0, {folder!r}); import spawned; spawned.start({port})"
SPAWNED = """
import time
import torch.distributed as dist
import torch.multiprocessing as mp

def work(index, port):
    if index == 1:
        time.sleep(600)
    method = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=method, rank=2 - index, world_size=3)

def start(port):
    global context
    context = mp.spawn(work, args=(port,), nprocs=2, join=False, daemon=True)
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
    with child(tmp_path / "0", env=env) as parent:
        parent.do(PARENT.format(folder=str(tmp_path), port=29))
        first, second = until(lambda: both(tmp_path), timeout=90)
        until(lambda: report(first)["phase"] == "init")

        assert report(first)["rank"] == 2
        assert report(first)["world_size"] == 3
        assert report(second)["phase"] == "start"
        assert any("spawned.py" in frame[0] for frame in report(second)["frames"])


def both(live: Path) -> list[Path]:
    pages = sorted(live.glob("rank-*.page"))
    return pages if len(pages) == 2 else []


def report(page: Path) -> dict[str, object]:
    reader = PageReader(str(page))
    try:
        return until(lambda: reader.read().report)
    finally:
        reader.close()
