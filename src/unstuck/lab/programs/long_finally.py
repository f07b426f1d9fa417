"""An exception on one rank, and a `finally:` that uploads for ever before anybody sees it."""

import time

import onset
import training


def upload_logs() -> None:
    time.sleep(3600)  # fault


def look_up(settings: dict[str, float]) -> float:
    onset.mark()
    try:
        return settings["learning_rate"]  # fault
    finally:
        upload_logs()  # fault


rank = training.join()
training.steps(onset.FAULT_STEP)
if rank == onset.FAULT_RANK:
    look_up({})
training.steps(1000)
