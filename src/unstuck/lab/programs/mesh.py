"""Eight ranks, 2 x 2 x 2 pipeline, data and tensor parallel: one sleeps, all wait in turn."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pipeline", "data", "tensor"))
stage = mesh.get_local_rank("pipeline")
across = (dist.get_rank() + 4) % 8


def load_layer() -> None:
    onset.mark()
    time.sleep(3600)  # fault


for step in range(1000):
    time.sleep(0.05)
    activation = torch.ones(4)
    if stage == 1:
        dist.recv(activation, across)
    if onset.due(step):
        load_layer()
    dist.all_reduce(activation, group=mesh.get_group("tensor"))
    if stage == 0:
        dist.send(activation, across)
    dist.all_reduce(torch.ones(4), group=mesh.get_group("data"))
