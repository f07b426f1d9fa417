"""Healthy: rank 0 plays games in an environment written in Python; the others wait for them."""

import random
import time

import training


def play() -> int:
    position, steps = 0, 0
    while abs(position) < 30:
        position += random.choice((-1, 1))
        steps += 1
    return steps


def collect_rollouts() -> None:
    end, games = time.monotonic() + training.PAUSE, 0
    while time.monotonic() < end:
        games += play()


training.train(collect_rollouts)
