"""Healthy: one sample of one rank's loader is slow to arrive; the worker waits for it, asleep."""

import time

import torch
import torch.distributed as dist
import training
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return training.STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(training.PAUSE if index == slow else 0.05)
        return torch.full((4,), float(index))


slow = training.HALFWAY if training.join() == 1 else -1
for batch in DataLoader(Samples(), batch_size=1, num_workers=1, prefetch_factor=1):
    dist.all_reduce(batch)
training.finish()
