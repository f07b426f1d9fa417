"""A pipeline in a ring: one rank receives from the rank after it, not from the one before."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
rank, world = dist.get_rank(), dist.get_world_size()
before, after = (rank - 1) % world, (rank + 1) % world
for step in range(1000):
    time.sleep(0.1 / world)
    activation = torch.zeros(4)
    source = before
    if onset.due(step):
        onset.mark()
        source = after
    if rank == 0:
        dist.send(activation, after)
    dist.recv(activation, source)  # fault
    if rank != 0:
        dist.send(activation + 1, after)
