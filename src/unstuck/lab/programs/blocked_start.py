"""Healthy by itself; before it joins it gives time to make a firewall that keeps ranks apart."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

if onset.RANK == onset.FAULT_RANK:
    onset.mark()
    time.sleep(2)
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for _ in range(20):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
