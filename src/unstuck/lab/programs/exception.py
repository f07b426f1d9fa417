"""One rank raises an exception while the others wait for it in a collective."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def parse(record: str) -> int:
    onset.mark()
    return int(record)  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        parse("twelve")
    dist.all_reduce(torch.ones(4))
