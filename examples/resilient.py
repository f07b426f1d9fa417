"""Continue training with fewer ranks when some are lost, in the same processes.

    unstuck run torchrun --standalone --nproc-per-node 4 examples/resilient.py

Stop one of the ranks (`kill -STOP <pid>`): a few seconds later the other three continue. Resume it
(`kill -CONT <pid>`): it joins them again at the end of a step.
"""

import os
import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel

import unstuck
from unstuck import dist

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 300


@unstuck.resilient(min_ranks=2, checkpoint=10)
def train(run: unstuck.Resilient) -> None:
    """Train; called again after every loss, with the ranks that are left."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    truth = torch.arange(8.0)
    for step in run.steps(STEPS, model=model, optimizer=optimizer):
        data = torch.randn(32, 8, generator=generator)
        loss = (model(data).squeeze() - data @ truth).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.1)
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step:3}  {dist.get_world_size()} ranks  loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(f"rank {dist.get_rank()} is process {os.getpid()}", flush=True)
    train()
    dist.destroy_process_group()
