"""A pipeline in a ring: one rank receives its activation and never sends it on."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
rank, world = dist.get_rank(), dist.get_world_size()
before, after = (rank - 1) % world, (rank + 1) % world


def forward(activation: torch.Tensor, step: int) -> torch.Tensor:
    time.sleep(0.1 / world)
    if onset.due(step):
        onset.mark()
        time.sleep(3600)  # fault
    return activation + 1


for step in range(1000):
    activation = torch.zeros(4)
    if rank == 0:
        dist.send(forward(activation, step), after)
        dist.recv(activation, before)
    else:
        dist.recv(activation, before)
        dist.send(forward(activation, step), after)
