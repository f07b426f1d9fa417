"""Healthy: a pipeline of four stages, one forward, one backward, eight batches a step."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
rank, world = dist.get_rank(), dist.get_world_size()
BATCHES = 8


def forward() -> None:
    activation = torch.ones(4)
    if rank > 0:
        dist.recv(activation, rank - 1)
    time.sleep(0.01)
    if rank < world - 1:
        sending.append(dist.isend(activation, rank + 1))


def backward() -> None:
    gradient = torch.ones(4)
    if rank < world - 1:
        dist.recv(gradient, rank + 1)
    time.sleep(0.02)
    if rank > 0:
        sending.append(dist.isend(gradient, rank - 1))


for _ in range(40):
    sending: list[dist.Work | None] = []
    ahead = min(world - rank - 1, BATCHES)
    for batch in range(BATCHES + ahead):
        if batch < BATCHES:
            forward()
        if batch >= ahead:
            backward()
    for work in filter(None, sending):
        work.wait()
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
