"""Healthy: trains until `STOP_FILE` is there, or for `STEPS` steps, and counts its own steps."""

import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
stop = Path(os.environ.get("STOP_FILE", "/nonexistent"))
steps = int(os.environ.get("STEPS", "60"))
total = torch.zeros(1)
over = torch.zeros(1)
step = 0
while step < steps and not over.item():
    time.sleep(0.1)
    step += 1
    one = torch.ones(1)
    dist.all_reduce(one)
    total += one
    over[0] = float(stop.exists())
    dist.all_reduce(over)
if dist.get_rank() == 0:
    expected = step * dist.get_world_size()
    print(f"trained {int(total.item())} steps, expected {expected}", flush=True)
dist.destroy_process_group()
