"""One rank waits for a command that never returns."""

import subprocess
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def fetch_dataset() -> None:
    onset.mark()
    subprocess.run(onset.SLEEPER, check=True)  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        fetch_dataset()
    dist.all_reduce(torch.ones(4))
