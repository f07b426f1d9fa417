"""Healthy: every 20 steps rank 0 saves for 2 to 6 s while the others wait at a barrier."""

import gzip
import tempfile
import time
from datetime import timedelta
from typing import IO, cast

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = torch.nn.Linear(1000, 1000)


def save_checkpoint(seconds: float) -> None:
    end = time.monotonic() + seconds
    with tempfile.TemporaryFile() as file, gzip.open(file, "wb") as packed:
        while time.monotonic() < end:
            torch.save(model.state_dict(), cast("IO[bytes]", packed))


for step in range(100):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
    if step % 20 == 19:
        if dist.get_rank() == 0:
            save_checkpoint(2.0 + step / 25)
        dist.barrier()
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
