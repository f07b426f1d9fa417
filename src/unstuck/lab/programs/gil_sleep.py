"""One rank sleeps in a C call that keeps the GIL: no Python thread of it can run."""

import ctypes
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def read_device() -> None:
    onset.mark()
    left = 3600
    while left:  # a signal cuts sleep(3) short, and good C code goes on
        left = ctypes.PyDLL(None).sleep(left)  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        read_device()
    dist.all_reduce(torch.ones(4))
