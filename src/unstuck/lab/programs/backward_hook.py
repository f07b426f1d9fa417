"""DDP: a gradient hook of one rank raises in the middle of the backward pass."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def check(gradient: torch.Tensor) -> None:
    if onset.due(step):
        onset.mark()
        raise FloatingPointError(f"gradient norm {gradient.norm():.3f} is too large")  # fault


model.module.weight.register_hook(check)
for step in range(1000):  # noqa: B007 - the hook reads it
    time.sleep(0.1)
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
