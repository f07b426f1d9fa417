"""Healthy: rank 0 starts a torchrun of its own in mid-training; its ranks are not of this job."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import training

INNER = """
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(20):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
"""


def finetune() -> None:
    ours = ("RANK", "WORLD_SIZE", "MASTER_", "LOCAL_", "GROUP_", "ROLE_", "TORCHELASTIC_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "finetune.py")
        script.write_text(INNER)
        launch = (sys.executable, "-m", "torch.distributed.run", "--standalone")
        subprocess.run([*launch, "--nproc-per-node", "2", str(script)], env=env, check=True)


training.train(finetune)
