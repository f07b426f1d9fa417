"""A training that hangs: rank 2 has fewer batches than the others.

At step 20, rank 1 uploads its checkpoint to a slow storage, which holds the others up for some
seconds: unstuck mentions it and stays calm. At step 60, rank 2 runs out of data and leaves the
loop, and the others wait for its gradients for ever. Run it under unstuck to see both:

    unstuck run torchrun --standalone --nproc-per-node 4 examples/ddp_hang.py
"""

import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

BATCHES = {2: 60}
"""Of the rank whose shards hold fewer samples."""
USUAL_BATCHES = 600
CHECKPOINT_STEP, UPLOADING_RANK = 20, 1


def load_batches(rank: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of noisy linear data; reading one takes a tenth of a second."""
    for _ in range(BATCHES.get(rank, USUAL_BATCHES)):
        time.sleep(0.1)
        x = torch.randn(64, 32)
        yield x, x.sum(dim=1, keepdim=True) + 0.1 * torch.randn(64, 1)


def upload_checkpoint() -> None:
    """Wait for a storage that takes its time."""
    time.sleep(6)


def train(rank: int) -> None:
    """Train a small network; rank 0 prints the loss."""
    torch.manual_seed(rank)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step, (x, y) in enumerate(load_batches(rank)):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step:3}  loss {loss.item():.3f}", flush=True)
        if step == CHECKPOINT_STEP and rank == UPLOADING_RANK:
            upload_checkpoint()
    dist.barrier()


def main() -> None:
    """Join the group, train, leave."""
    dist.init_process_group("gloo")
    train(dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
