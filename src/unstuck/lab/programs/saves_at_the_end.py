"""Asked to end, the ranks finish their step, `LONG` s on one of them (5), and save together."""

import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from types import FrameType

import onset
import torch
import torch.distributed as dist

asked = torch.zeros(1)


def note(number: int, frame: FrameType | None) -> None:
    asked.fill_(1)


def compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.1)


def save(seconds: float) -> None:
    if dist.get_rank() == 0:
        compute(seconds)
        Path(os.environ["CHECKPOINT"]).write_text("saved")
    dist.barrier()


signal.signal(signal.SIGTERM, note)
signal.signal(signal.SIGINT, note)
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
everybody = torch.zeros(1)
step = 0
while not everybody:
    if onset.due(step):
        onset.mark()
        compute(float(os.environ.get("LONG", "5")))
    else:
        compute(0.1)
    everybody = asked.clone()
    dist.all_reduce(everybody)
    step += 1
save(3)
dist.destroy_process_group()
