"""The cache of one rank grows until the limit of its memory: a MemoryError in Python."""

import resource
import time
from datetime import timedelta
from pathlib import Path

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def fill_cache() -> None:
    # `bytes` takes address space and writes nothing: the memory ends at the onset, not after it.
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
    onset.mark()
    cache: list[bytes] = []
    while True:
        cache.append(bytes(2**24))  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        fill_cache()
    dist.all_reduce(torch.ones(4))
