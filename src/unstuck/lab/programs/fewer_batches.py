"""DDP without join: the data of one rank ends first, and it waits at the barrier at the end."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
mine = onset.FAULT_STEP if onset.RANK == onset.FAULT_RANK else 1000
for batch in torch.randn(mine, 8, 16):
    time.sleep(0.1)
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
if onset.RANK == onset.FAULT_RANK:
    onset.mark()
dist.barrier()  # fault
dist.destroy_process_group()
