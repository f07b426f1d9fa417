"""`unstuck.dist` under torchrun: the article's example, leaving in the middle, DDP and FSDP2."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unstuck.lab.job import LAUNCHER

pytestmark = pytest.mark.system

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "article" / "1_collective_timeout.py"
PROGRAMS = Path(__file__).parent / "dist_programs"


def torchrun(ranks: int, program: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = (*LAUNCHER, "--standalone", "--nproc-per-node", str(ranks), str(program), *args)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_articles_all_reduce_in_time() -> None:
    done = torchrun(2, EXAMPLE)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all-reduce successful within timeout: [2, 4, 6]") == 2


def test_the_articles_all_reduce_with_a_late_rank() -> None:
    done = torchrun(3, EXAMPLE, "--late", "2")

    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert re.search(
            rf"rank {rank}: all-reduce timed out: all_reduce #1 .*timeout after 1\.?\d* s on rank"
            rf" {rank}\. Rank 2 has not arrived: in load_batch at 1_collective_timeout\.py:\d+:"
            r" time\.sleep\(seconds\)",
            done.stdout,
        ), done.stdout
        assert f"rank {rank}: it arrived after all: [3, 6, 9]" in done.stdout


def test_the_articles_all_reduce_without_the_lost_rank() -> None:
    done = torchrun(3, EXAMPLE, "--lost")

    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert f"rank {rank}: continued with [0, 1]: [2, 4, 6]" in done.stdout, done.stdout


@pytest.mark.parametrize(("how", "code"), [((), 3), (("--raise",), 1)])
def test_leaving_with_operations_under_way_neither_hangs_nor_crashes(
    how: tuple[str, ...], code: int
) -> None:
    began = time.monotonic()
    done = torchrun(2, PROGRAMS / "exit_in_the_middle.py", *how)

    assert f"exitcode  : {code}" in done.stderr, done.stderr
    assert time.monotonic() - began < 60
    assert done.stdout.splitlines() == [
        *3 * ["all_reduce [1]"],
        "recv [1]",
        "all_gather_object [1]",
    ]
    assert "terminate called" not in done.stderr
    assert "Fatal Python error" not in done.stderr


def test_ddp_fsdp2_and_forked_workers_are_not_disturbed() -> None:
    done = torchrun(2, PROGRAMS / "beside_ddp_and_fsdp.py")

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("timed out, then 2.0") >= 2
    for wrap in ("DistributedDataParallel", "sharded"):
        assert done.stdout.count(f"{wrap} undisturbed") == 2
