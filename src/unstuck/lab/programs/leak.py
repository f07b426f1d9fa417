"""One rank keeps 4 MB more at every step from `FAULT_STEP` on; a memory limit would end it."""

import os
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
kept: list[bytes] = []
for step in range(int(os.environ.get("STEPS", "60"))):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
    if onset.RANK == onset.FAULT_RANK and step >= onset.FAULT_STEP:
        kept.append(b"x" * (4 << 20))  # quick: it must not be slow as well
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
