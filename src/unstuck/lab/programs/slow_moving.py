"""Slow, not stuck: after fast steps every rank takes `SLOW` seconds (6) a step, then the end."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

SLOW = float(os.environ.get("SLOW", "6"))

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for step in range(23):
    time.sleep(0.1 if step < 20 else SLOW + 0.3 * dist.get_rank())
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
