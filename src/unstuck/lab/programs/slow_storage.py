"""Healthy: every 20 steps rank 0 waits 4 s for its storage, the others for it at a barrier."""

import io
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
model = torch.nn.Linear(16, 16)


class Bucket(io.BytesIO):
    """A file far away: each write takes its time, whatever its size."""

    def write(self, data: Any, /) -> int:
        time.sleep(0.09)
        return super().write(data)


for step in range(80):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
    if step % 20 == 19:
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), Bucket())
        dist.barrier()
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
