"""One rank writes its log to a command that does not read it, until the pipe is full."""

import subprocess
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


def write_log() -> None:
    with subprocess.Popen(onset.SLEEPER, stdin=subprocess.PIPE) as shipper:
        assert shipper.stdin is not None
        onset.mark()
        shipper.stdin.write(bytes(10**6))  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        write_log()
    dist.all_reduce(torch.ones(4))
