"""Healthy: rank 0 keeps the parameters and serves whoever asks; the others compute for seconds."""

import time

import torch
import torch.distributed as dist
import training

ROUNDS = 3


def serve(parameters: torch.Tensor) -> None:
    gradient = torch.empty(4)
    for _ in range(ROUNDS * (dist.get_world_size() - 1)):
        worker = dist.recv(gradient)
        parameters -= 0.1 * gradient
        dist.send(parameters, worker)


def gradient_of(parameters: torch.Tensor) -> torch.Tensor:
    end = time.monotonic() + training.PAUSE / ROUNDS + rank
    gradient = parameters.sin()
    while time.monotonic() < end:
        gradient += parameters.sin()
    return gradient


def work(parameters: torch.Tensor) -> None:
    for _ in range(ROUNDS):
        dist.send(gradient_of(parameters), 0)
        dist.recv(parameters, 0)


rank = training.join()
(work if rank else serve)(torch.ones(4))
dist.barrier()
training.finish()
