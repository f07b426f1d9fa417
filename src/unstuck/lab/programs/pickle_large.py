"""Healthy: rank 0 pickles a large object, which holds the GIL for seconds, twice."""

import io
import pickle

import training


def save_state() -> None:
    state = [[True] * 1000] * int(20_000 * training.PAUSE)
    for _ in range(2):
        pickler = pickle.Pickler(io.BytesIO())
        pickler.fast = True  # every reference is written out: 1 kB for each of these lists
        pickler.dump(state)


training.train(save_state)
