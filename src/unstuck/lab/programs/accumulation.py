"""Healthy: DDP sums up gradients over eight batches and talks to the others only then."""

import contextlib
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(200):
    last = step % 8 == 7
    with contextlib.nullcontext() if last else model.no_sync():
        model(torch.randn(8, 16)).square().mean().backward()
    time.sleep(0.1)
    if last:
        optimizer.step()
        optimizer.zero_grad()
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
