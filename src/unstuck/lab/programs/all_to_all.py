"""Experts exchange tokens in all_to_all; one rank computes for ever and never sends its own."""

import time
from datetime import timedelta

import onset
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
tokens = torch.ones(dist.get_world_size(), 4)


def route() -> None:
    onset.mark()
    while True:  # fault
        tokens.softmax(1)  # fault


for step in range(1000):
    time.sleep(0.1)
    if onset.due(step):
        route()
    dist.all_to_all_single(torch.empty_like(tokens), tokens)
