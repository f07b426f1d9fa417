"""Two threads of one rank hold one lock each and wait for the other's."""

import threading
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
metrics_lock, log_lock = threading.Lock(), threading.Lock()
both_held = threading.Barrier(2)


def write_log() -> None:
    with log_lock:
        both_held.wait()
        metrics_lock.acquire()


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        with metrics_lock:
            threading.Thread(target=write_log, daemon=True).start()
            both_held.wait()
            onset.mark()
            log_lock.acquire()  # fault
    dist.all_reduce(torch.ones(4))
