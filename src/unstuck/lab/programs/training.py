"""A small training in which something happens on the way: what many healthy programs share.

`STEPS` steps (40) of 0.1 s; what happens takes about `PAUSE` seconds (10).
"""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

PAUSE = float(os.environ.get("PAUSE", "10"))
STEPS = int(os.environ.get("STEPS", "40"))
HALFWAY = STEPS // 2


def join() -> int:
    """Join the others and return the own rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=600))
    return dist.get_rank()


def steps(count: int, group: Any = None) -> None:
    """Train for some steps, as all ranks of the group do."""
    for _ in range(count):
        time.sleep(0.1)
        dist.all_reduce(torch.ones(4), group=group)


def train(happens: Callable[[], object], rank: int | None = 0) -> None:
    """Train; halfway this happens on one rank, or on all, and the others wait at a barrier."""
    own = join()
    steps(HALFWAY)
    if rank in (own, None):
        happens()
    dist.barrier()
    steps(STEPS - HALFWAY)
    finish()


def finish() -> None:
    """Say that all went well and leave."""
    if dist.get_rank() == 0:
        print("trained", flush=True)
    dist.destroy_process_group()
