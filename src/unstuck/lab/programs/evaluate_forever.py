"""Only rank 0 evaluates, on data that never ends, while the others begin the next step."""

import itertools
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = torch.nn.Linear(256, 256)


def evaluate() -> float:
    onset.mark()
    correct = 0.0
    with torch.no_grad():
        for _ in itertools.count():  # fault
            correct += model(torch.ones(64, 256)).mean().item()  # fault
    return correct


for step in range(1000):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
    if onset.due(step, rank=0):
        evaluate()
