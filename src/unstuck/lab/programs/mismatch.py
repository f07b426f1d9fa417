"""One rank calls broadcast where the others call all_reduce."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        dist.broadcast(torch.ones(4), src=0)  # fault
    else:
        dist.all_reduce(torch.ones(4))
