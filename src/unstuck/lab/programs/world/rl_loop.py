"""Reinforcement learning: processes play games for as long as those take, then all ranks learn."""

import multiprocessing
import random
from datetime import timedelta

import shift
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def play(seed: int) -> float:
    """Play one game; some are long."""
    dice, reward = random.Random(seed), 0.0
    for _ in range(dice.choice((10_000, 50_000, 1_000_000))):
        reward += dice.random() - 0.5
    return reward


def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=600))
    policy = DistributedDataParallel(torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    games = 0
    with multiprocessing.get_context("spawn").Pool(2) as players:
        while shift.goes_on():
            shift.accelerator(shift.chance.choice((0, 0, 15)))  # an external environment
            seeds = range(games, games + 8)
            rewards = players.map(play, [seed * shift.WORLD + shift.RANK for seed in seeds])
            for _ in range(20):
                states = torch.randn(len(rewards), 16)
                (policy(states).mean(1) * torch.tensor(rewards)).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                shift.accelerator(0.1)
            games += 8
    dist.destroy_process_group()
    shift.trained()


if __name__ == "__main__":
    main()
