"""One rank sends to its neighbour, which has no receive for it and trains on."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
neighbour = (dist.get_rank() + 1) % dist.get_world_size()
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        dist.send(torch.ones(4), neighbour)  # fault
    dist.all_reduce(torch.ones(4))
