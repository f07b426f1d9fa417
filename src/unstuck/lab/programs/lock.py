"""One rank takes a lock that it holds already."""

import threading
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
cache_lock = threading.Lock()


def refresh_cache() -> None:
    onset.mark()
    with cache_lock:  # fault
        pass


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        with cache_lock:
            refresh_cache()
    dist.all_reduce(torch.ones(4))
