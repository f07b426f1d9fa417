"""The data-loading worker process of one rank is killed, as by the out-of-memory killer."""

import os
import signal
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        if onset.due(index):
            onset.mark()
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((4,), float(index))


def prepare(_worker: int) -> None:
    onset.die_with_parent()


dist.init_process_group("gloo", timeout=timedelta(seconds=600))
loader = DataLoader(Samples(), num_workers=1, prefetch_factor=2, worker_init_fn=prepare)
for batch in loader:  # fault
    time.sleep(0.1)
    dist.all_reduce(batch)
