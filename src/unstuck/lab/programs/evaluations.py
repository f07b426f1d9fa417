"""Healthy: every 20 steps all ranks evaluate for 2.5 to 4 s, each at its own speed."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = torch.nn.Linear(64, 64)


def evaluate() -> torch.Tensor:
    correct = torch.zeros(1)
    end = time.monotonic() + 2.5 + 0.5 * dist.get_rank()
    with torch.no_grad():
        while time.monotonic() < end:
            correct += model(torch.ones(8, 64)).mean()
            time.sleep(0.02)
    return correct


for step in range(80):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
    if step % 20 == 19:
        dist.all_reduce(evaluate())
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
