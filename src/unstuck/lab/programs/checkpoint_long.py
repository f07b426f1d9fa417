"""Rank 0 writes a checkpoint that does not end while the others wait at the barrier after it."""

import gzip
import tempfile
import time
from datetime import timedelta
from typing import IO, cast

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = torch.nn.Linear(1000, 1000)


def save_checkpoint() -> None:
    onset.mark()
    with tempfile.TemporaryFile() as file, gzip.open(file, "wb") as packed:
        while file.tell() < 10**12:
            torch.save(model.state_dict(), cast("IO[bytes]", packed))  # fault


for step in range(1000):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
    if onset.due(step, rank=0):
        save_checkpoint()
    if step % 10 == 0:
        dist.barrier()
