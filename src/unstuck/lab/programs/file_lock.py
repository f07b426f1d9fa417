"""Another process holds the lock of a cache file that one rank wants to read."""

import fcntl
import os
import subprocess
import tempfile
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def read_cache(path: str) -> None:
    with open(path) as cache:
        onset.mark()
        fcntl.flock(cache, fcntl.LOCK_EX)  # fault


with tempfile.TemporaryFile() as nameless:  # no file stays behind when the job is killed
    path = f"/proc/{os.getpid()}/fd/{nameless.fileno()}"
    if onset.RANK == onset.FAULT_RANK:
        subprocess.Popen(["flock", "--no-fork", path, *onset.SLEEPER])
    for step in range(1000):
        time.sleep(0.1)
        if onset.due(step):
            read_cache(path)
        dist.all_reduce(torch.ones(4))
