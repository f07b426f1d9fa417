"""One rank checks its input and leaves with exit code 3."""

import sys
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        sys.exit(3)  # fault
    dist.all_reduce(torch.ones(4))
