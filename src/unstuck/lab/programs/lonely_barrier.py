"""One rank enters the barrier of a pair; its partner never does and trains on."""

import time
from datetime import timedelta
from typing import Any

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
rank, world = dist.get_rank(), dist.get_world_size()
pairs: list[Any] = [dist.new_group([first, first + 1]) for first in range(0, world - 1, 2)]
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        dist.barrier(group=pairs[rank // 2])  # fault
    dist.all_reduce(torch.ones(4))
