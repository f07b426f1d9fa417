"""One rank leaves the loop at a loss that is not a number and goes on to the results."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss = torch.zeros(1)
results: list[object] = [None] * dist.get_world_size()
for step in range(1000):
    time.sleep(0.1)
    loss = model(torch.randn(8, 16)).square().mean() * (float("nan") if onset.due(step) else 1.0)
    if loss.isnan():
        onset.mark()
        break
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.all_gather_object(results, loss.item())  # fault
dist.destroy_process_group()
