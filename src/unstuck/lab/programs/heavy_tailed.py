"""Healthy: most steps take 0.1 s, some far longer, on a different rank each time."""

import os
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
seed = os.getppid()  # the launcher's: another job every time
if dist.get_rank() == 0:
    print("seed", seed, flush=True)
steps = random.Random(f"{seed} {dist.get_rank()}")
for _ in range(40):
    time.sleep(min(0.05 * steps.paretovariate(1.0), 2.5))
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
