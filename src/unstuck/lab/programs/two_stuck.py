"""Two faults at once in one group: one rank wants a lock of a dead thread, another is stopped."""

import os
import signal
import threading
import time

import onset
import training

cache_lock = threading.Lock()


def refresh_cache() -> None:
    with cache_lock:  # fault
        pass


rank = training.join()
training.steps(onset.FAULT_STEP)
if rank == 1:
    thread = threading.Thread(target=cache_lock.acquire)
    thread.start()
    thread.join()
    refresh_cache()
if rank == 2:
    time.sleep(0.5)
    onset.mark()
    os.kill(os.getpid(), signal.SIGSTOP)  # fault
training.steps(1000)
