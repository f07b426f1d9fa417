"""Plain collectives: one rank computes for ever in Python and never reaches the next one."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def tokenize() -> None:
    onset.mark()
    count = 0
    while True:  # fault
        count += 1  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        tokenize()
    dist.all_reduce(torch.ones(4))
