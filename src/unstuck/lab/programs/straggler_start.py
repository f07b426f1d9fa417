"""One rank sleeps 0.3 s more than the others in every step, from the very first on."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
onset.mark()
for _ in range(1000):
    time.sleep(0.1)
    if onset.RANK == onset.FAULT_RANK:
        time.sleep(0.3)  # fault
    dist.all_reduce(torch.ones(4))
