"""Healthy: every rank tokenises with a pool of threads, rank 0 longest; its main thread waits."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import training

TEXT = "the quick brown fox jumps over the lazy dog " * 200


def tokenise(seconds: float) -> int:
    end, words = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        words += len(re.findall(r"\w+", TEXT))
    return words


def prepare() -> None:
    seconds = training.PAUSE / (1 + torch.distributed.get_rank())
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(tokenise, [seconds] * 3))


training.train(prepare, rank=None)
