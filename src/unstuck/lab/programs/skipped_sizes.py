"""One rank skips an operation after many steps, so its next one meets others of another size."""

import time

import onset
import torch
import torch.distributed as dist
import training

training.join()
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
    else:
        dist.all_reduce(torch.ones(4000))  # fault
    dist.all_reduce(torch.ones(6000))  # fault
