"""One rank calls one all_reduce too many; it shows when the others call something else."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
world = dist.get_world_size()
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        dist.all_reduce(torch.ones(4))  # fault: a loss that only this rank logs
    dist.all_reduce(torch.ones(4))  # fault: seen here
    if step % 5 == 4:
        dist.all_gather([torch.zeros(1) for _ in range(world)], torch.ones(1))
