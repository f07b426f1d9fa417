"""One rank is stopped (SIGSTOP), as by a debugger, a job scheduler or a stray Ctrl-Z."""

import os
import signal
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        os.kill(os.getpid(), signal.SIGSTOP)  # fault
    dist.all_reduce(torch.ones(4))
