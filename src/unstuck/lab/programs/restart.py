"""Rank 1 of the first attempt kills itself; the second attempt runs to its end."""

import os
import signal
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
total = torch.ones(1)
for step in range(20):
    time.sleep(0.1)
    if attempt == 0 and step == 10 and dist.get_rank() == 1:
        onset.mark()
        os.kill(os.getpid(), signal.SIGKILL)  # fault
    total = torch.ones(1)
    dist.all_reduce(total)
if dist.get_rank() == 0:
    print(f"attempt {attempt} result {total.item()}", flush=True)
dist.destroy_process_group()
