"""Rank 0 hands out the learning rate as an object; one rank is asleep and does not take it."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def read_config() -> None:
    onset.mark()
    time.sleep(3600)  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        read_config()
    settings: list[object] = [{"rate": 0.1 / (step + 1)}]
    dist.broadcast_object_list(settings, src=0)
    dist.all_reduce(torch.ones(4))
