"""One rank does not call new_group, which all must call, and trains on."""

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
    elif step == onset.FAULT_STEP:
        dist.new_group()
    dist.all_reduce(torch.ones(4))  # fault: here it waits for those in new_group
