"""A training that hangs: at step 60 rank 2 waits for a shard that nobody writes.

Run it under unstuck to see the verdict:

    unstuck run torchrun --standalone --nproc-per-node 4 examples/ddp_hang.py
"""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 600
STEPS_PER_SHARD = 60
RANK_WITHOUT_DATA = 2
SHARDS = Path("data/shards")


def wait_for_more_data(shard: Path) -> None:
    """Wait until the preprocessing job has written the next shard."""
    while not os.path.exists(shard):  # noqa: PTH110 - typical training code
        time.sleep(1)


def load_batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return a batch of noisy linear data; reading it takes a tenth of a second."""
    if step > 0 and step % STEPS_PER_SHARD == 0 and rank == RANK_WITHOUT_DATA:
        wait_for_more_data(SHARDS / f"rank{rank}-shard{step // STEPS_PER_SHARD}.pt")
    time.sleep(0.1)
    x = torch.randn(64, 32)
    return x, x.sum(dim=1, keepdim=True) + 0.1 * torch.randn(64, 1)


def train(rank: int) -> None:
    """Train a small network; rank 0 prints the loss."""
    torch.manual_seed(rank)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step in range(STEPS):
        x, y = load_batch(step, rank)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step:3}  loss {loss.item():.3f}", flush=True)


def main() -> None:
    """Join the group, train, leave."""
    dist.init_process_group("gloo")
    train(dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
