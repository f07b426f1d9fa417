"""Let the worker threads of gloo become idle before the interpreter ends.

A worker that has just completed an operation still frees its tensors, which takes the GIL. Where
the interpreter has begun to end by then, torch aborts the process: `terminate called without an
active exception`, after a run in which nothing was wrong. It happens on a busy machine, and more
often without `destroy_process_group`.
"""

import contextlib
import os
import time

LONGEST = 0.5
"""Seconds; a worker that runs for longer has something else to do."""
_PAUSE = 0.001
_WORKER = "pt_gloo_runloop"
_TASKS = "/proc/self/task"


def settle(longest: float = LONGEST) -> None:
    """Return when no worker is about to free anything; at once where there are none.

    One that waits in an operation sleeps, and is not waited for.
    """
    until = time.monotonic() + longest
    workers = [task for task in os.listdir(_TASKS) if _read(task, "comm").strip() == _WORKER]
    at_rest = 0
    # Twice: one that waits for the GIL sleeps too, and gets it during the pause.
    while workers and at_rest < 2 and time.monotonic() < until:
        at_rest = 0 if any(_runs(task) for task in workers) else at_rest + 1
        time.sleep(_PAUSE)


def _runs(task: str) -> bool:
    """Tell whether a thread runs, or would if it were given a core."""
    return _read(task, "stat").rpartition(")")[2].startswith(" R")


def _read(task: str, name: str) -> str:
    with contextlib.suppress(OSError), open(f"{_TASKS}/{task}/{name}") as file:
        return file.read()
    return ""
