"""One rank copies its data for ever before it joins; the others wait in init_process_group."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist


def copy_data() -> None:
    onset.mark()
    time.sleep(3600)  # fault


if onset.RANK == onset.FAULT_RANK:
    copy_data()
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for _ in range(1000):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
