"""How often torch aborts a process that has finished, with and without unstuck.

    python bench/clean_exit.py

A gloo worker thread that frees its tensors while the interpreter exits makes torch abort the
process. This needs a machine without a free core, so here other processes keep all cores busy and
gloo's threads run at idle priority. Each run is two processes that train for five DDP steps and
exit without `destroy_process_group`, alternately with and without what unstuck does at exit.
"""

import argparse
import atexit
import collections
import contextlib
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Generator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from unstuck.observe.probe.settle_gloo import settle

WAYS = ("torch", "unstuck")
kept: list[object] = []
"""As in a script, the model lives until the interpreter exits."""


def train(rank: int, port: int) -> None:
    """Train for five steps; before the last one, give gloo's threads idle priority."""
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept.append(model)
    for step in range(5):
        if step == 4:
            for task in Path("/proc/self/task").iterdir():
                if int(task.name) != os.getpid():
                    os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))
        model(torch.ones(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def run(way: str) -> list[int]:
    """Run two processes and return their exit codes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes: list[int] = []
    for rank in range(2):
        if (pid := os.fork()) == 0:
            train(rank, port)
            if way == "unstuck":
                atexit.register(settle)
            sys.exit(0)
        processes.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in processes]


@contextlib.contextmanager
def no_free_core() -> Generator[None, None, None]:
    """Keep every core busy."""
    owner = os.getpid()
    hogs: list[int] = []
    for _ in range(os.cpu_count() or 1):
        if (pid := os.fork()) == 0:
            while True:
                pass
        hogs.append(pid)
    try:
        yield
    finally:
        # The training processes get here as well.
        for pid in hogs if os.getpid() == owner else ():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main() -> None:
    """Alternate between both ways and count."""
    importlib.import_module("torch._dynamo")  # once, and not in every process
    parser = argparse.ArgumentParser(description="Count how often finished processes abort.")
    parser.add_argument("--runs", type=int, default=100, help="runs of each way, of 2 processes")
    runs = parser.parse_args().runs
    codes: dict[str, collections.Counter[int]] = {way: collections.Counter() for way in WAYS}
    seconds = dict.fromkeys(WAYS, 0.0)
    with no_free_core():
        for _ in range(runs):
            for way in WAYS:
                began = time.monotonic()
                codes[way].update(run(way))
                seconds[way] += time.monotonic() - began
    for way in WAYS:
        failed = codes[way].total() - codes[way][0]
        print(
            f"{way:<8} {failed} of {codes[way].total()} processes exited with an error "
            f"({dict(codes[way])}), {seconds[way] / runs:.2f} s per run"
        )


if __name__ == "__main__":
    main()
