"""The ranks end normally, one after the other, `APART` seconds (4) apart; nobody needs anybody."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

APART = float(os.environ.get("APART", "4"))

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for _ in range(20):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
time.sleep(APART * dist.get_rank())
print(f"rank {dist.get_rank()} wrote its shard", flush=True)
dist.destroy_process_group()
