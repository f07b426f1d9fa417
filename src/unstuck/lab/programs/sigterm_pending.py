"""One rank waits for a mutex in C with the GIL held: its SIGTERM handler can never run."""

import ctypes
import signal
import sys
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
libc = ctypes.PyDLL(None)
mutex = ctypes.create_string_buffer(64)  # zeroed memory is a valid pthread_mutex_t
libc.pthread_mutex_lock(mutex)
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
        libc.pthread_mutex_lock(mutex)  # fault
    dist.all_reduce(torch.ones(4))
