"""The thread of one rank that reads batches ahead died; the trainer waits at its empty queue."""

import queue
import threading
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
batches: queue.Queue[torch.Tensor] = queue.Queue(maxsize=2)


def read_ahead() -> None:
    for step in range(1000):
        if onset.due(step):
            raise ValueError("record 30 is damaged")
        batches.put(torch.ones(4))


threading.Thread(target=read_ahead, daemon=True).start()
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
    batch = batches.get()  # fault
    dist.all_reduce(batch)
