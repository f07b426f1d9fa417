"""After it joined, one rank prepares data for ever; the others wait for it in the training loop."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist


def unpack_archive() -> None:
    onset.mark()
    time.sleep(3600)  # fault


dist.init_process_group("gloo", timeout=timedelta(seconds=600))
if onset.RANK == onset.FAULT_RANK:
    unpack_archive()
for _ in range(1000):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
