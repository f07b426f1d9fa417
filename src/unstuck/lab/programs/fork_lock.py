"""One rank forks while its thread holds a lock: the child waits for it for ever, the rank too."""

import multiprocessing
import threading
import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
cache_lock = threading.Lock()
fork = multiprocessing.get_context("fork")


def decode() -> None:
    onset.die_with_parent()
    with cache_lock:  # held by a thread that does not exist in the child
        pass


def hold(held: threading.Event, release: threading.Event) -> None:
    with cache_lock:
        held.set()
        release.wait()


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        held, release = threading.Event(), threading.Event()
        threading.Thread(target=hold, args=(held, release)).start()
        held.wait()
        child = fork.Process(target=decode)
        child.start()
        release.set()
        onset.mark()
        child.join()  # fault
    dist.all_reduce(torch.ones(4))
