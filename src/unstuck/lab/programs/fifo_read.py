"""One rank reads a file that never answers, as on a dead network file system: here a FIFO."""

import os
import tempfile
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
with tempfile.TemporaryDirectory() as folder:
    os.mkfifo(f"{folder}/shard")
    shard = os.open(f"{folder}/shard", os.O_RDWR)  # its only writer, which never writes


def load_shard() -> bytes:
    onset.mark()
    return os.read(shard, 2**20)  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        load_shard()
    dist.all_reduce(torch.ones(4))
