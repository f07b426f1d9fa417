"""One rank sleeps while the others wait for it in monitored_barrier."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def validate() -> None:
    onset.mark()
    time.sleep(3600)  # fault


for step in range(1000):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
    if onset.due(step):
        validate()
    dist.monitored_barrier(timeout=timedelta(seconds=600))
