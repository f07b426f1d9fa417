"""A script that tells unstuck what it does: one rank sleeps inside the section `load batch`."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

import unstuck

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def load_batch(step: int) -> torch.Tensor:
    if onset.due(step):
        onset.mark()
        time.sleep(3600)  # fault
    return torch.ones(4)


for step in range(1000):
    with unstuck.section("load batch", timeout=None):
        batch = load_batch(step)
    time.sleep(0.1)
    dist.all_reduce(batch)
    unstuck.step()
