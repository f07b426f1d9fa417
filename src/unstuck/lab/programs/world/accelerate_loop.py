"""Accelerate: gradients accumulate, metrics are gathered, the main process evaluates alone."""

import shift
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

helper = Accelerator(cpu=True, gradient_accumulation_steps=4)
model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(2000, 32)), batch_size=8, shuffle=True)
model, optimizer, loader = helper.prepare(model, optimizer, loader)
epoch = 0
while shift.goes_on():
    loss = torch.zeros(1)
    for (batch,) in loader:
        with helper.accumulate(model):
            shift.accelerator(0.1)
            loss = model(batch).square().mean()
            helper.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    helper.gather_for_metrics(loss.detach().reshape(1))
    if helper.is_main_process:
        shift.compute(5 + 2 * epoch)
    helper.wait_for_everyone()
    helper.save_state(str(shift.HOME / "state"))
    epoch += 1
helper.end_training()
shift.trained()
