"""FSDP2 with distributed checkpoints: some are written at once, some by a thread beside it."""

from datetime import timedelta
from typing import Any

import shift
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
# The thread that saves must not mix its collectives with those of the training.
savers: Any = dist.new_group()
layers = [torch.nn.Linear(512, 512) for _ in range(4)]
model = torch.nn.Sequential(*layers)
for layer in layers:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
writing: Any = None
number = 0


def state() -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    return {"weights": weights, "moments": moments}


while shift.goes_on():
    for _ in range(100):
        model(torch.randn(8, 512)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        shift.accelerator(0.1)
    if writing is not None:
        writing.result()
    place = str(shift.HOME / f"{number % 2}")
    if number % 3:
        writing = async_save(state(), checkpoint_id=place, process_group=savers)
    else:
        save(state(), checkpoint_id=place)
        loaded = state()
        load(loaded, checkpoint_id=place)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=loaded["weights"],
            optim_state_dict=loaded["moments"],
        )
    number += 1
if writing is not None:
    writing.result()
dist.barrier()
dist.destroy_process_group()
shift.trained()
