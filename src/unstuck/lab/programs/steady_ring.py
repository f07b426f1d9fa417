"""Nothing is wrong: a pipeline in a ring, by sends and receives only."""

import os
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
rank, world = dist.get_rank(), dist.get_world_size()
before, after = (rank - 1) % world, (rank + 1) % world
for step in range(int(os.environ.get("STEPS", "60"))):
    activation = torch.zeros(4)
    if rank != 0:
        dist.recv(activation, before)
    time.sleep(0.1 / world)
    if onset.due(step):
        onset.mark()
    dist.send(activation + 1, after)
    if rank == 0:
        dist.recv(activation, before)
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
