"""Nothing is wrong: one rank writes 2 MB to the disk at every step, as a logger of samples does."""

import os
import time
from datetime import timedelta
from pathlib import Path

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
target = Path(os.environ["ONSET_FILE"]).parent / f"samples-{onset.RANK}"
samples = os.urandom(2 << 20)


def log_samples() -> None:
    with target.open("wb") as file:
        file.write(samples)
        os.fsync(file.fileno())


for step in range(int(os.environ.get("STEPS", "60"))):
    time.sleep(0.05)
    if onset.RANK == onset.FAULT_RANK:
        log_samples()
    if onset.due(step):
        onset.mark()
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
