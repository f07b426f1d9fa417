"""Evaluation takes 2.5 s each time; once it falls into a group that waits for 2 s only."""

import time
from datetime import timedelta
from typing import Any

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=2))
patient: Any = dist.new_group(timeout=timedelta(seconds=600))


def evaluate() -> None:
    time.sleep(2.5)  # fault


for step in range(1000):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
    if onset.due(step):
        onset.mark()
    if step % 10 == 0 and onset.RANK == onset.FAULT_RANK:
        evaluate()
    if step % 10 == 0 and step < onset.FAULT_STEP:
        dist.barrier(group=patient)
