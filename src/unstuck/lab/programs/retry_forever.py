"""One rank retries a download for ever and lets nothing stop it, not even Ctrl-C."""

import contextlib
import socket
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
with socket.create_server(("127.0.0.1", 0)) as server:
    nobody_there = server.getsockname()


def download() -> None:
    onset.mark()
    while True:
        with contextlib.suppress(BaseException):
            socket.create_connection(nobody_there)  # fault
        with contextlib.suppress(BaseException):
            time.sleep(0.5)  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        download()
    dist.all_reduce(torch.ones(4))
