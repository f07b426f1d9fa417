"""All ranks read their next batch from a storage that does not answer (a pipe nobody writes)."""

import os
import tempfile
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
with tempfile.TemporaryDirectory() as folder:
    os.mkfifo(batches := f"{folder}/batches")
    for step in range(1000):
        time.sleep(0.1)
        if step == onset.FAULT_STEP:
            if onset.RANK == onset.FAULT_RANK:
                onset.mark()
            with open(batches) as storage:  # fault
                storage.read()
        dist.all_reduce(torch.ones(4))
