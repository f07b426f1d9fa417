"""One rank spins in a regular expression with exponential cost: C code that keeps the GIL."""

import re
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def clean(text: str) -> bool:
    onset.mark()
    return re.match(r"(\w+\s?)+$", text) is not None  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        clean("a" * 64 + "!")
    dist.all_reduce(torch.ones(4))
