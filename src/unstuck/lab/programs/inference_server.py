"""Healthy: rank 0 waits for requests in a queue, the others for rank 0; mostly for long."""

import queue
import threading
import time
from typing import Any

import torch.distributed as dist
import training

requests: queue.Queue[str] = queue.Queue()


def clients() -> None:
    """Ask at once, after a while, and after a long while."""
    for share in (0.0, 0.2, 0.6, 1.0):
        time.sleep(training.PAUSE * share)
        requests.put("how many roads")
    requests.put("")


rank = training.join()
if rank == 0:
    threading.Thread(target=clients, daemon=True).start()
while True:
    request: list[Any] = [requests.get() if rank == 0 else None]
    dist.broadcast_object_list(request)
    if not request[0]:
        break
    training.steps(3)
training.finish()
