"""Not torchrun: every rank is started by somebody else, each under its own `unstuck run`."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from expectations import PROGRAMS
from unstuck.lab.job import Job

pytestmark = pytest.mark.system

WORLD = 3
TASK = """
import os, sys
import torch
import torch.distributed as dist

rank, size = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
where = f"tcp://127.0.0.1:{sys.argv[1]}"
dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size)
for step in range(100):
    dist.all_reduce(torch.ones(4))
    if (rank, step) == (1, 50):
        raise ValueError("bad batch")
"""


def launch(start: Callable[..., Job], port: int, tokens: list[str]) -> list[Job]:
    """Start the ranks as srun or mpirun would, and the hub on a port of its own."""
    return [
        start(
            *(sys.executable, str(PROGRAMS / "ddp_sleep.py")),
            options=("--hub", f"127.0.0.1:{port + 1}", "--patience", "3s"),
            env={
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(WORLD),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "UNSTUCK_TOKEN": token,
            },
        )
        for rank, token in enumerate(tokens)
    ]


def test_ranks_that_find_their_hub_are_judged_together(
    start: Callable[..., Job], free_port: int
) -> None:
    jobs = launch(start, free_port, ["secret"] * WORLD)
    hubs = [job for job in jobs if job.wait_watched() == "hub"]
    assert len(hubs) == 1

    verdict = hubs[0].wait_verdict(60)

    assert [culprit["rank"] for culprit in verdict["culprits"]] == [2]
    assert verdict["victims"] == [0, 1]


def test_a_wrong_token_is_refused_before_the_job_starts(
    start: Callable[..., Job], free_port: int
) -> None:
    first = launch(start, free_port, ["secret"])[0]
    assert first.wait_watched() == "hub"

    second = launch(start, free_port, ["wrong"])[0]

    assert second.wait_exit(20) == 2
    assert "UNSTUCK_TOKEN" in second.stderr.read_text()


def test_tasks_of_mpirun_are_one_job_with_one_verdict(
    start: Callable[..., Job], free_port: int, tmp_path: Path
) -> None:
    """The environment of Open MPI; only the script makes ranks of it, and one of them raises."""
    script = tmp_path / "train.py"
    script.write_text(TASK)
    jobs = [
        start(
            *(sys.executable, str(script), str(free_port)),
            env={
                "OMPI_COMM_WORLD_RANK": str(rank),
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "OMPI_MCA_ess_base_jobid": f"test-{free_port}",
            },
        )
        for rank in range(2)
    ]
    hubs = [job for job in jobs if job.wait_watched() == "hub"]
    assert len(hubs) == 1

    verdict = hubs[0].wait_verdict(60)
    assert (verdict["cause"], [each["rank"] for each in verdict["culprits"]]) == (
        "process-crash",
        [1],
    )
    assert [job.wait_exit(60) for job in jobs] == [1, 1]
    assert sum(len(job.verdicts()) for job in jobs) == 1
