"""Train with DDP and FSDP2 while other operations time out, and workers are forked."""

import time

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from unstuck import dist

STEPS = 6


def train(model: nn.Module, rank: int, disturb: bool) -> list[float]:
    """Run a few steps; in the middle of each, a rank is late for an operation on another group."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses: list[float] = []
    for step in range(STEPS):
        x = torch.linspace(0, 1, 8).reshape(2, 4) * (step + 1 + rank)
        loss = model(x).square().mean()
        loss.backward()
        if disturb:
            late_for_something(rank)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(round(loss.item(), 5))
    return losses


def late_for_something(rank: int) -> None:
    tensor = torch.ones(1)
    if rank == 1:
        time.sleep(0.1)
        dist.all_reduce(tensor, group=side)
        return
    try:
        dist.all_reduce(tensor, group=side, timeout=0.02, copy=True)
    except dist.CollectiveTimeout as error:
        while loaders:
            assert len(list(loaders.pop())) == 4
        error.work.wait(timeout=60)
        print(f"timed out, then {tensor.item()}", flush=True)


def sharded(model: nn.Module) -> nn.Module:
    fully_shard(model, mesh=mesh)
    return model


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    own, side = dist.get_rank(), dist.new_group([0, 1])
    data = TensorDataset(torch.arange(4))
    loaders = [
        DataLoader(data, num_workers=1, multiprocessing_context=method)
        for method in ("fork", "spawn")
    ]
    mesh = init_device_mesh("cpu", (2,))
    for wrap in (DistributedDataParallel, sharded):
        quiet = train(wrap(network()), own, disturb=False)
        assert train(wrap(network()), own, disturb=True) == quiet, wrap
        # One string: the ranks' output is unbuffered, and print writes each argument separately.
        print(f"{wrap.__name__} undisturbed", flush=True)
    with dist.deadline(60):
        assert train(DistributedDataParallel(network()), own, disturb=False)
    dist.destroy_process_group()
