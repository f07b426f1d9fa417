"""One rank finds nothing to do and ends before it joins; the others wait for it to join."""

import sys
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

if onset.RANK == onset.FAULT_RANK:
    onset.mark()
    sys.exit(0)  # fault
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for _ in range(1000):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
