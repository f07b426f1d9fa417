"""Healthy: one rank tries again after 1, 2, 4 ... s until the storage is there again."""

import socket
import threading
import time

import training


def download_shard() -> None:
    with socket.socket() as storage:
        storage.bind(("127.0.0.1", 0))
        threading.Timer(training.PAUSE, storage.listen).start()
        wait = 1.0
        while True:
            try:
                socket.create_connection(storage.getsockname(), timeout=5).close()
            except ConnectionRefusedError:
                time.sleep(wait)
                wait *= 2
            else:
                return


training.train(download_shard, rank=2)
