"""Before the first step rank 0 counts words for ever; the others wait for it at a barrier."""

import collections
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))

TEXT = "the quick brown fox jumps over the lazy dog"


def build_vocabulary() -> None:
    onset.mark()
    words: collections.Counter[str] = collections.Counter()
    while True:
        words.update(TEXT.split())  # fault


if dist.get_rank() == 0:
    build_vocabulary()
dist.barrier()
for _ in range(1000):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
