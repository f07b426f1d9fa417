"""One rank believes that the broadcast comes from itself, the others that it is from rank 0."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for step in range(1000):
    time.sleep(0.1)
    wrong = onset.due(step)
    if wrong:
        onset.mark()
    dist.broadcast(torch.ones(4), src=dist.get_rank() if wrong else 0)  # fault
