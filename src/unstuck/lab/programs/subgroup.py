"""Pairs and the world: one rank of a pair sleeps, its partner waits, everybody waits for both."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
rank, world = dist.get_rank(), dist.get_world_size()
pairs = [dist.new_group([first, first + 1]) for first in range(0, world - 1, 2)]


def evaluate() -> None:
    onset.mark()
    time.sleep(3600)  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        evaluate()
    dist.all_reduce(torch.ones(4), group=pairs[rank // 2])
    if step % 5 == 0:
        dist.all_reduce(torch.ones(4))
