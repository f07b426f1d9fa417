"""Healthy: a helper program of rank 0 uses torch.distributed for itself, and fails."""

import subprocess
import sys

import training

HELPER = """
import torch.distributed as dist
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
dist.barrier()
raise SystemExit(3)
"""


def evaluate() -> None:
    subprocess.run([sys.executable, "-c", HELPER], check=False)


training.train(evaluate)
