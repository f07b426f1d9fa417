"""DTensor on a mesh of 2 x 2: tensor parallelism within a pair, FSDP2 between the pairs."""

import shift
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

mesh = init_device_mesh("cpu", (shift.WORLD // 2, 2), mesh_dim_names=("dp", "tp"))
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
while shift.goes_on():
    for _ in range(150):
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        shift.accelerator(0.1)
    if shift.RANK < 2:  # one pair tests, the other pair waits for it
        with torch.no_grad():
            shift.compute(4)
dist.barrier()
dist.destroy_process_group()
shift.trained()
