"""One rank reduces more elements than the others: gloo aborts a rank that receives too much."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for step in range(1000):
    time.sleep(0.1)
    last_batch = onset.due(step)
    if last_batch:
        onset.mark()
    dist.all_reduce(torch.ones(6000 if last_batch else 4000))  # fault
