"""One rank skips one all_reduce; its later ones pair up shifted until another call comes."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
world = dist.get_world_size()


def share_metrics() -> None:
    dist.all_gather([torch.zeros(1) for _ in range(world)], torch.ones(1))  # fault: seen here


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()  # fault: the empty batch that it skips
    else:
        dist.all_reduce(torch.ones(4))
    if step % 5 == 4:
        share_metrics()
