"""Healthy: the last rank does not train: it waits for checkpoints of the others and tests them."""

import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import training

CHECKPOINTS = 3
home = Path(tempfile.gettempdir(), f"checkpoints-{os.environ['MASTER_PORT']}")


def test(number: int) -> None:
    file = home / f"{number}.pt"
    while not file.exists():
        time.sleep(0.5)
    torch.load(file)


rank = training.join()
last = dist.get_world_size() - 1
trainers = dist.new_group(list(range(last)))
home.mkdir(exist_ok=True)
for number in range(CHECKPOINTS):
    if rank == last:
        test(number)
    else:
        training.steps(int(3 * training.PAUSE), trainers)
        if rank == 0:
            torch.save(torch.ones(4), home / "draft")
            (home / "draft").replace(home / f"{number}.pt")
dist.barrier()
training.finish()
