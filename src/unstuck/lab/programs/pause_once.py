"""Healthy: one rank pauses once for 2.5 s, as in a garbage collection, and never again."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for step in range(100):
    time.sleep(0.1)
    if onset.due(step):
        time.sleep(2.5)
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
