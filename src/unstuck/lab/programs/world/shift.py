"""How long a job of the world lab lasts, and what all of them share: `MINUTES` (5)."""

import os
import random
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
END = time.monotonic() + 60 * float(os.environ.get("MINUTES", "5"))
HOME = Path(tempfile.gettempdir(), f"world-{os.environ.get('MASTER_PORT', '')}")
"""A folder for all ranks of the job."""
HOME.mkdir(exist_ok=True)
chance = random.Random(RANK)
"""Differs from rank to rank, as the speed of machines does."""
torch.manual_seed(0)
torch.set_num_threads(1)


def goes_on() -> bool:
    """Tell whether there is time left; rank 0 decides for all."""
    left = torch.tensor([float(time.monotonic() < END)])
    dist.broadcast(left, 0)
    return bool(left)


def accelerator(seconds: float) -> None:
    """Wait as for a GPU that computes, now and then a little longer."""
    time.sleep(seconds * chance.choice((0.9, 1.0, 1.0, 1.1, 1.5)))


def compute(seconds: float) -> float:
    """Compute on the CPU."""
    end, total = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        total += float(torch.randn(64, 64).square().sum())
    return total


def trained() -> None:
    """Say that all went well."""
    if RANK == 0:
        print("trained", flush=True)
