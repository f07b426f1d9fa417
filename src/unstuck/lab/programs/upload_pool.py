"""Healthy: a pool of threads uploads a checkpoint from rank 0; its main thread only waits."""

from concurrent.futures import ThreadPoolExecutor

import far_away
import training

SPEED = 200_000


def upload_checkpoint() -> None:
    part = int(SPEED * training.PAUSE / 2)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(far_away.upload, [part] * 8))


far_away.serve(SPEED)
training.train(upload_checkpoint)
