"""Two groups over all ranks: one rank uses them in the other order, once."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
tensor_group, data_group = dist.new_group(), dist.new_group()
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        dist.all_reduce(torch.ones(4), group=data_group)  # fault
        dist.all_reduce(torch.ones(4), group=tensor_group)
    else:
        dist.all_reduce(torch.ones(4), group=tensor_group)
        dist.all_reduce(torch.ones(4), group=data_group)
