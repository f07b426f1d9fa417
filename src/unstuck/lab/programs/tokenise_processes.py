"""Healthy: rank 0 tokenises with a pool of processes and waits for them, the others for it."""

import multiprocessing
import time

import training

TEXT = "the quick brown fox jumps over the lazy dog " * 200


def tokenise(seconds: float) -> int:
    end, words = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        words += len(TEXT.split())
    return words


def prepare() -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(tokenise, [training.PAUSE / 4] * 8, chunksize=1)


training.train(prepare)
