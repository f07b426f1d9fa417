"""A DDP job that measures itself for `SECONDS`: steps per second, CPU time a step, as JSON.

`RESULT` names the file; `MODE=collectives` is a tight loop of small all_reduces instead.
"""

import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 3.0


def ddp_step() -> Callable[[], None]:
    """Give one training step of a small multilayer perceptron: some 20-50 ms on two cores."""
    layers = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()) for _ in range(4)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(64, 512)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def collectives_step() -> Callable[[], None]:
    """Give one small all_reduce: the worst case for anything that looks at collectives."""
    tensor = torch.zeros(4)

    def step() -> None:
        dist.all_reduce(tensor)

    return step


def steps_for(seconds: float, step: Callable[[], None]) -> tuple[int, float]:
    """Step until rank 0 says that the time is over; all ranks do the same number of steps."""
    begin = time.perf_counter()
    count, go_on = 0, torch.ones(1)
    while go_on.item():
        for _ in range(10):
            step()
        count += 10
        go_on.fill_(float(time.perf_counter() - begin < seconds))
        dist.broadcast(go_on, src=0)
    return count, time.perf_counter() - begin


def main() -> None:
    """Warm up, measure, and let rank 0 write the result."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    step = collectives_step() if os.environ.get("MODE") == "collectives" else ddp_step()
    steps_for(WARM_UP, step)
    before = time.process_time()
    count, seconds = steps_for(float(os.environ.get("SECONDS", "12")), step)
    cpu = torch.tensor([time.process_time() - before])
    dist.all_reduce(cpu)
    if dist.get_rank() == 0:
        result = {"per_second": count / seconds, "cpu_ms": 1000 * cpu.item() / count}
        Path(os.environ["RESULT"]).write_text(json.dumps(result))
    dist.destroy_process_group()
    os._exit(0)  # torch now and then aborts on its way out, watched or not; what counts is written


if __name__ == "__main__":
    main()
