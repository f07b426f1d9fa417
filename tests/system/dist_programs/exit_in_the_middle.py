"""Exit with everything that a timeout can leave behind; rank 1 never arrives."""

import sys
import time
from datetime import timedelta

import torch

from unstuck import dist

dist.init_process_group("gloo", timeout=timedelta(seconds=300))
dist.barrier(timeout=60)
sub_group = dist.new_group([0, 1], timeout=timedelta(seconds=300))
if dist.get_rank() == 1:
    time.sleep(5)
    sys.exit(0)

for attempt in (
    lambda: dist.all_reduce(torch.ones(4), timeout=0.1),
    lambda: dist.all_reduce(torch.ones(4), timeout=0.1),
    lambda: dist.all_reduce(torch.ones(4), timeout=0.1),
    lambda: dist.recv(torch.ones(4), 1, timeout=0.1),
    lambda: dist.all_gather_object([None, None], "x", group=sub_group, timeout=0.1),
):
    try:
        attempt()
    except dist.CollectiveTimeout as error:
        print(error.op, error.missing, flush=True)
unwaited = dist.irecv(torch.ones(4), 1, timeout=60)
if "--raise" in sys.argv:
    raise ValueError("in the middle")
sys.exit(3)
