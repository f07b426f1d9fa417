"""A pipeline by torch's own schedules: one forward one backward, then all forwards first."""

from datetime import timedelta

import shift
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

BATCHES = 4
dist.init_process_group("gloo", timeout=timedelta(seconds=600))


class Stage(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shift.accelerator(0.02)
        return self.layer(x).relu()


stage = PipelineStage(Stage(), shift.RANK, shift.WORLD, torch.device("cpu"))
loss = torch.nn.MSELoss()
schedules = [kind(stage, BATCHES, loss_fn=loss) for kind in (Schedule1F1B, ScheduleGPipe)]
optimizer = torch.optim.AdamW(stage.submod.parameters(), lr=1e-3)
number = 0
while shift.goes_on():
    for _ in range(100):
        schedule = schedules[number % 2]
        if shift.RANK == 0:
            schedule.step(torch.randn(32, 64))
        elif shift.RANK == shift.WORLD - 1:
            schedule.step(target=torch.randn(32, 64))
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
    if shift.RANK == shift.WORLD - 1:  # only the last stage has outputs to look at
        shift.compute(5)
    number += 1
dist.barrier()
dist.destroy_process_group()
shift.trained()
