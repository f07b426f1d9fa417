"""Trains with `@unstuck.resilient` and goes wrong once as `FAULT` says: `kill`, `stop`, `raise`,
`memory` or `deadlock`.

The first rank of the world prints every step that is done; `attempt` counts the losses.
"""

import os
import signal
import threading
import time

import onset
import torch
from torch.nn.parallel import DistributedDataParallel

import unstuck
from unstuck import dist

FAULT = os.environ.get("FAULT", "") if "UNSTUCK_RESPAWNED" not in os.environ else ""
STEPS = int(os.environ.get("STEPS", "60"))


def go_wrong() -> None:
    onset.mark()
    if FAULT == "kill":
        os.kill(os.getpid(), signal.SIGKILL)  # fault
    elif FAULT == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)  # fault
    elif FAULT == "raise":
        raise ValueError("bad batch")  # fault
    elif FAULT == "memory":
        torch.empty(1 << 50)  # fault
    elif FAULT == "deadlock":
        lock = threading.Lock()
        with lock:
            lock.acquire()  # fault


@unstuck.resilient(min_ranks=1, checkpoint=10)
def train(run: unstuck.Resilient) -> None:
    torch.manual_seed(7)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    parallel = DistributedDataParallel(model)
    for step in run.steps(STEPS, model=model, optimizer=optimizer):
        time.sleep(0.05)
        if FAULT and run.losses == 0 and onset.due(step):
            go_wrong()
        parallel(torch.ones(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            size = dist.get_world_size()
            words = f"attempt {run.losses} step {step + 1} at {time.time():.3f} of {size}"
            print(words, flush=True)


dist.init_process_group("gloo")
train()
dist.destroy_process_group()
