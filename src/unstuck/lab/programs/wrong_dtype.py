"""One rank reduces float64 where the others reduce float32: twice the bytes, and an abort."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for step in range(1000):
    time.sleep(0.1)
    gradient = torch.ones(4000)
    if onset.due(step):
        onset.mark()
        gradient = gradient.double()
    dist.all_reduce(gradient)  # fault
