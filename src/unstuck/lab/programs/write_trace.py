"""Healthy: rank 0 has profiled some steps and writes the trace, one long call into C++."""

import tempfile
from pathlib import Path

import torch
import training
from torch.profiler import ProfilerActivity, profile


def profile_steps() -> None:
    weights = torch.ones(4)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as trace:
        for _ in range(int(3000 * training.PAUSE)):
            weights = weights * 0.5 + 1
    with tempfile.TemporaryDirectory() as folder:
        trace.export_chrome_trace(str(Path(folder, "trace.json")))


training.train(profile_steps)
