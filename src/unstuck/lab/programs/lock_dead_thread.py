"""A thread of one rank died with a lock in its hands; the training thread wants that lock."""

import threading
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
cache_lock = threading.Lock()


def refresh_cache() -> None:
    cache_lock.acquire()
    raise OSError("the cache server does not answer")


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        thread = threading.Thread(target=refresh_cache)
        thread.start()
        thread.join()
        onset.mark()
        with cache_lock:  # fault
            pass
    dist.all_reduce(torch.ones(4))
