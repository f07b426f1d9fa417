"""One rank asks for a tensor that no machine can hold: torch's allocator gives up."""

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
        torch.empty(2**46)  # fault
    dist.all_reduce(torch.ones(4))
