"""The data-loading worker process of one rank blocks for ever at one index."""

import multiprocessing
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
            trainer = multiprocessing.parent_process()
            assert trainer is not None
            trainer.join()  # fault: for ever, yet no orphan stays behind
        return torch.full((4,), float(index))


dist.init_process_group("gloo", timeout=timedelta(seconds=600))
loader = DataLoader(Samples(), batch_size=1, num_workers=1, prefetch_factor=1)
for batch in loader:  # fault: here the trainer waits for its worker
    time.sleep(0.1)
    dist.all_reduce(batch)
