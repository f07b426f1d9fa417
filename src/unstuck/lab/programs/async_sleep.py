"""Communication overlaps work: one rank has begun its all_reduce and sleeps before the wait."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for step in range(1000):
    work = dist.all_reduce(torch.ones(4), async_op=True)
    assert work is not None
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        time.sleep(3600)  # fault
    work.wait()
