"""All ranks read their next batch from a storage that does not answer (a pipe nobody writes)."""

import os
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
storage, _never_written = os.pipe()
for step in range(1000):
    time.sleep(0.1)
    if step == onset.FAULT_STEP:
        if onset.RANK == onset.FAULT_RANK:
            onset.mark()
        os.read(storage, 1)  # fault
    dist.all_reduce(torch.ones(4))
