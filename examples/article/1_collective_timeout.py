"""The article's first example, made to work: an all-reduce that gives up waiting.

The article calls `dist.all_reduce(tensor, timeout=timedelta(seconds=5))`, which torch does not
support: it raises TypeError. With `unstuck.dist` instead of `torch.distributed` the same lines do
what they promise, including the article's `except RuntimeError` with "timeout" in the text.

Healthy, and with a late rank:

    torchrun --nproc-per-node 3 examples/article/1_collective_timeout.py
    torchrun --nproc-per-node 3 examples/article/1_collective_timeout.py --late 2

With `--late 2` the last rank is two seconds late. The others report which rank it is and what it is
doing, wait for it once more, and continue. With `--lost` it never arrives: they continue without.
"""

import argparse
import time
from datetime import timedelta

import torch

from unstuck import dist


def load_batch(seconds: float) -> None:
    """Load a batch slowly."""
    time.sleep(seconds)


def reduce_once(rank: int) -> None:
    """Do what the article does, and handle the timeout, which it leaves to the reader."""
    tensor = torch.tensor([1, 2, 3])
    try:
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM, timeout=timedelta(seconds=1), copy=True)
        print(f"rank {rank}: all-reduce successful within timeout: {tensor.tolist()}", flush=True)
    except RuntimeError as error:
        if "timeout" not in str(error):
            raise
        print(f"rank {rank}: all-reduce timed out: {error}", flush=True)
        recover(rank, tensor, error)


def recover(rank: int, tensor: torch.Tensor, error: RuntimeError) -> None:
    """Wait once more; if the missing rank still does not arrive, continue without it."""
    assert isinstance(error, dist.CollectiveTimeout)  # noqa: S101 - the only RuntimeError with that text
    try:
        error.work.wait(timeout=3)
        print(f"rank {rank}: it arrived after all: {tensor.tolist()}", flush=True)
    except dist.CollectiveTimeout as again:
        dist.rebuild(survivors=again.present)
        dist.all_reduce(tensor, timeout=5)
        print(f"rank {rank}: continued with {again.present}: {tensor.tolist()}", flush=True)


def main() -> None:
    """Join the group, reduce, leave."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--late", type=float, default=0.0, help="seconds the last rank is late")
    parser.add_argument("--lost", action="store_true", help="the last rank does not arrive")
    chosen = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    last = rank == dist.get_world_size() - 1
    if last:
        load_batch(8 if chosen.lost else chosen.late)
    if last and chosen.lost:
        print(f"rank {rank}: the others continued without this rank", flush=True)
    else:
        reduce_once(rank)
    dist.leave()


if __name__ == "__main__":
    main()
