"""DDP: one rank sleeps before its backward pass while the others wait in theirs."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def save_checkpoint() -> None:
    onset.mark()
    time.sleep(3600)  # fault


for step in range(1000):
    loss = model(torch.randn(8, 16)).square().mean()
    time.sleep(0.1)
    if onset.due(step):
        save_checkpoint()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
