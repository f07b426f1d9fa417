"""FSDP2 on the CPU: one rank sleeps between two steps while the others gather parameters."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(2)))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def evaluate() -> None:
    onset.mark()
    time.sleep(3600)  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        evaluate()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
