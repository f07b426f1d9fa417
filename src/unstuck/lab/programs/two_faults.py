"""Two pairs that do not need each other: in one a rank computes, in the other one wants a lock."""

import threading
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
cache_lock = threading.Lock()


def tokenize() -> None:
    onset.mark()
    while True:  # fault
        pass  # fault


def refresh_cache() -> None:
    with cache_lock:
        onset.mark()
        cache_lock.acquire()  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step, rank=1):
        tokenize()
    if onset.due(step, rank=2):
        refresh_cache()
    dist.all_reduce(torch.ones(4), group=pairs[rank // 2])
