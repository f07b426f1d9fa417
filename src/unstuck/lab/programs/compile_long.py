"""One rank meets a new shape and compiles again, a loop that unrolls into far too much code."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def loss(batch: torch.Tensor) -> torch.Tensor:
    for _ in range(1000 * batch.shape[0] ** 2):
        batch = batch * 0.5 + 1
    return batch.mean()


compiled = torch.compile(loss, backend="eager", dynamic=False)
batch = torch.ones(0, 4)
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        batch = torch.ones(64, 4)
    compiled(batch)  # fault
    dist.all_reduce(torch.ones(4))
