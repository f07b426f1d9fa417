"""A thread of each rank runs its collectives; one rank has nothing more for its thread to do."""

import queue
import threading
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist


def communicate() -> None:
    while True:
        gradient = ready.get()
        dist.all_reduce(gradient)
        reduced.put(gradient)


dist.init_process_group("gloo", timeout=timedelta(seconds=600))
ready: queue.Queue[torch.Tensor] = queue.Queue()
reduced: queue.Queue[torch.Tensor] = queue.Queue()
threading.Thread(target=communicate, daemon=True).start()
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        time.sleep(3600)  # fault
    ready.put(torch.ones(4))
    reduced.get()
