"""A DDP job that counts its steps in `COUNT_FILE` until `STOP_FILE` exists.

The count is followed by the time of the last step. With `MODE=collectives` it is a tight loop of
small all_reduces instead.
"""

import os
import struct
import time
from collections.abc import Callable
from datetime import timedelta
from mmap import mmap
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def ddp_step() -> Callable[[], None]:
    """Return a training step of a small multilayer perceptron: 20-50 ms on two cores."""
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
    """Return a small all_reduce: the worst case for whatever observes collectives."""
    tensor = torch.zeros(4)

    def step() -> None:
        dist.all_reduce(tensor)

    return step


def steps_until(stop: Path, step: Callable[[], None]) -> None:
    """Run steps until `stop` exists; the same number on all ranks."""
    with Path(os.environ["COUNT_FILE"]).open("r+b") as file, mmap(file.fileno(), 16) as page:
        count, go_on = 0, torch.ones(1)
        while go_on.item():
            for _ in range(10):
                step()
                count += 1
                if dist.get_rank() == 0:
                    page[:] = struct.pack("<qd", count, time.monotonic())
            go_on.fill_(float(not stop.exists()))
            dist.broadcast(go_on, src=0)


def main() -> None:
    """Train and count until asked to stop."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    step = collectives_step() if os.environ.get("MODE") == "collectives" else ddp_step()
    steps_until(Path(os.environ["STOP_FILE"]), step)
    dist.destroy_process_group()
    os._exit(0)  # torch sometimes aborts at exit, watched or not


if __name__ == "__main__":
    main()
