"""Healthy: the ranks load their data one after the other, 3 s apart, before they join."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

time.sleep(3 * int(os.environ["RANK"]))
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for _ in range(40):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
