"""Healthy: now and then the storage makes all ranks wait 4 s for their next batch."""

import time
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def batches() -> Iterator[torch.Tensor]:
    for number in range(80):
        time.sleep(4 if number % 25 == 24 else 0.1)
        yield torch.ones(4)


for batch in batches():
    dist.all_reduce(batch)
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
