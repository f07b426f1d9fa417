"""DDP: the branch that one rank takes leaves a layer out, so its gradients are never complete."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=600))


class Experts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.always, self.seldom = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

    def forward(self, batch: torch.Tensor, *, skip: bool) -> torch.Tensor:
        return self.always(batch if skip else self.seldom(batch))


model = DistributedDataParallel(Experts())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        onset.mark()
    loss = model(torch.randn(8, 16), skip=onset.due(step)).square().mean()  # fault
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
