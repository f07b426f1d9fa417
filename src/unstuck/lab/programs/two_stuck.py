"""Two faults at once in one group: a lock of a thread that has died, and a lock taken twice."""

import threading

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
    with cache_lock:
        onset.mark()
        refresh_cache()
training.steps(1000)
