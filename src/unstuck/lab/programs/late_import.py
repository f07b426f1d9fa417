"""Healthy: rank 2 imports for 8 s longer than the others, reads its settings, and joins."""

import os
import sys
import tempfile
import time
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import torch
import torch.distributed as dist


def read_settings() -> None:
    time.sleep(3)


if os.environ["RANK"] == "2":
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "slow_package.py").write_text("import time\ntime.sleep(8)\n")
        sys.path.insert(0, folder)
        import_module("slow_package")
    read_settings()
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for _ in range(40):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 0:
    print("trained", flush=True)
dist.destroy_process_group()
