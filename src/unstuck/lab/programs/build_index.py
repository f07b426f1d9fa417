"""Healthy: rank 0 builds an index of the data in a file, while the others wait for it."""

import sqlite3
import tempfile
import time
from pathlib import Path

import training


def build_index() -> None:
    end = time.monotonic() + training.PAUSE
    with tempfile.TemporaryDirectory() as folder:
        index = sqlite3.connect(Path(folder, "index.db"))
        index.execute("create table words (word text primary key, place integer)")
        place = 0
        while time.monotonic() < end:
            rows = [(f"word {number}", number) for number in range(place, place + 1000)]
            index.executemany("insert into words values (?, ?)", rows)
            index.commit()
            place += 1000
            time.sleep(0.05)
        index.close()


training.train(build_index)
