"""Healthy: the ranks have 40 to 100 batches each, and DDP's join lets the early ones shadow."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with model.join():
    for batch in torch.randn(40 + 20 * dist.get_rank(), 8, 16):
        time.sleep(0.1)
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
