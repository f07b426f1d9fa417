"""The training is over and all ranks but one have ended; that one uploads for ever."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist


def upload() -> None:
    onset.mark()
    time.sleep(3600)  # fault


dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for _ in range(onset.FAULT_STEP):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
if onset.RANK == onset.FAULT_RANK:
    upload()
