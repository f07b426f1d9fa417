"""From one step on, one rank sleeps 0.3 s more than the others in every step."""

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
    if onset.RANK == onset.FAULT_RANK and step >= onset.FAULT_STEP:
        time.sleep(0.3)  # fault
    dist.all_reduce(torch.ones(4))
