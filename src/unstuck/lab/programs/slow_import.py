"""One rank imports a package for long, then copies its data for ever; the others are in init."""

import sys
import tempfile
import time
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import onset
import torch
import torch.distributed as dist


def copy_data() -> None:
    onset.mark()
    time.sleep(3600)  # fault


if onset.RANK == onset.FAULT_RANK:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "slow_package.py").write_text("import time\ntime.sleep(6)\n")
        sys.path.insert(0, folder)
        import_module("slow_package")
    copy_data()
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
for _ in range(1000):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
