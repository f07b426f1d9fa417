"""Nothing is wrong: DDP for `STEPS` steps (60), then a clean end; step 30 is written down."""

import os
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(int(os.environ.get("STEPS", "60"))):
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
