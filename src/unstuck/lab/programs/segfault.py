"""One rank reads at address 0 in C code: a segmentation fault."""

import ctypes
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
        ctypes.string_at(0)  # fault
    dist.all_reduce(torch.ones(4))
