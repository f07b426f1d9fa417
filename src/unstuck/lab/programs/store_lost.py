"""Rank 0, done with its part, ends; with it goes the store that the others need for a new group."""

import os
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
others = dist.new_group(range(1, dist.get_world_size()))
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step, rank=0):
        onset.mark()
        os._exit(0)  # fault
    if dist.get_rank() != 0:
        dist.all_reduce(torch.ones(4), group=others)
        if step == onset.FAULT_STEP + 5:
            dist.new_group(range(1, dist.get_world_size()), use_local_synchronization=True)
