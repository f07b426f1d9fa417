"""From one step on, the data of one rank comes slowly: 0.4 s a batch, with a worker process."""

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
        if onset.RANK == onset.FAULT_RANK and index >= onset.FAULT_STEP:
            time.sleep(0.4)  # fault
        return torch.full((4,), float(index))


dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for batch in DataLoader(Samples(), num_workers=1, prefetch_factor=1):  # fault
    time.sleep(0.1)
    dist.all_reduce(batch)
