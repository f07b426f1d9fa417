"""DDP that moves all the time; from `FAULT_STEP` (60) on one rank takes longer in every step.

`HOW` says what takes longer: `sleep` (default), `burn` (computing, `BURN` seconds), `limit` (its
cgroup's cpu limit), `once` (one pause of `PAUSE` seconds, then as before), `save` (a short
checkpoint in every fifth step) or `nothing`. Each step takes 0.1 s of work.
"""

import os
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

HOW = os.environ.get("HOW", "sleep")
UNTIL = int(os.environ.get("UNTIL", "1000000"))
FAULT_STEP = int(os.environ.get("FAULT_STEP", "60"))


def work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def go_wrong(step: int) -> None:
    if step == FAULT_STEP:
        onset.mark()
    if HOW == "sleep":
        time.sleep(0.2)  # fault
    elif HOW == "burn":
        work(float(os.environ.get("BURN", "0.1")))  # fault
    elif HOW == "limit" and step == FAULT_STEP:
        with open(os.environ["LIMITED_GROUP"] + "/cgroup.procs", "w") as group:
            group.write(str(os.getpid()))
    elif HOW == "once" and step == FAULT_STEP:
        time.sleep(float(os.environ.get("PAUSE", "2")))
    elif HOW == "save" and step % 5 == 0:
        time.sleep(0.3)


def set_apart() -> None:
    """Give the rank that goes wrong core 1 and the others core 0, where asked to."""
    if os.environ.get("PIN"):
        os.sched_setaffinity(0, {1 if onset.RANK == onset.FAULT_RANK else 0})


dist.init_process_group("gloo", timeout=timedelta(seconds=600))
set_apart()
model = DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
CPU = float(os.environ.get("CPU", "0.01"))
for step in range(int(os.environ.get("STEPS", "600"))):
    mine = onset.RANK == onset.FAULT_RANK
    work(CPU if mine else 0.01)
    time.sleep(0.1 - CPU if mine else 0.09)
    if mine and FAULT_STEP <= step < UNTIL:
        go_wrong(step)
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if onset.RANK == 0:
    print("trained", flush=True)
dist.destroy_process_group()
