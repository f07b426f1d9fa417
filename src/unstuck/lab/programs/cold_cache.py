"""Healthy: in the first epoch every shard comes from far away, to one rank much slower."""

import functools

import far_away
import torch
import torch.distributed as dist
import training

SPEED = 200_000


@functools.cache
def shard(number: int) -> torch.Tensor:
    seconds = training.PAUSE / 2 if rank == 1 else 1.0
    return torch.full((4,), float(far_away.download(int(SPEED * seconds)) + number))


far_away.serve(SPEED)
rank = training.join()
for _ in range(5):
    for number in range(3):
        training.steps(2)
        dist.all_reduce(shard(number))
training.finish()
