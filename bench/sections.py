"""What it costs the training thread to enter and leave a section, with and without a limit.

    python bench/sections.py

Every figure is the median and the best of many short rounds, minus the cost of an empty function;
rounds of all kinds alternate, so that a busy machine affects all of them alike.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import unstuck
from unstuck.observe.probe.page import PageWriter
from unstuck.observe.probe.this_process import current

ROUND = 500


def nothing() -> None:
    """Do nothing: the cost of any call."""


def plain() -> None:
    with unstuck.section("load"):
        pass


def limited() -> None:
    with unstuck.section("load", timeout=30):
        pass


def raising() -> None:
    with unstuck.section("load", timeout=30, on_timeout="raise"):
        pass


def learned() -> None:
    with unstuck.section("save", on_timeout="report"):
        pass


def nested() -> None:
    with unstuck.section("epoch"), unstuck.section("step", timeout=30):
        pass


def timer() -> None:
    """Start a thread for every section, as in the article."""
    one = threading.Timer(30, print)
    one.start()
    one.cancel()


KINDS: list[tuple[str, Callable[[], None], float | None]] = [
    ("without a limit", plain, 1.0),
    ("timeout=30", limited, 3.0),
    ("timeout=30, on_timeout='raise'", raising, None),
    ("learned limit", learned, None),
    ("timeout=30 inside another one", nested, None),
    ("threading.Timer, as in the article", timer, None),
]


def measure(rounds: int) -> dict[str, tuple[float, float]]:
    """Return the median and the best of each kind in microseconds."""
    found: dict[str, list[float]] = {name: [] for name, _, _ in KINDS}
    for _ in range(rounds):
        base = seconds(nothing, ROUND)
        for name, kind, _ in KINDS:
            times = 10 if kind is timer else ROUND
            found[name].append((seconds(kind, times) / times - base / ROUND) * 1e6)
    return {name: (statistics.median(all_), min(all_)) for name, all_ in found.items()}


def seconds(kind: Callable[[], None], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        kind()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    plain()
    for watched in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            if watched:
                current.attach(PageWriter(str(Path(folder) / "page")))
            print("a watched rank" if watched else "an unwatched process")
            for name, (median, best) in measure(options.rounds).items():
                goal = next(goal for kind, _, goal in KINDS if kind == name)
                note = f"   goal {goal:g} us" if goal else ""
                print(f"  {name:36s} median {median:6.2f} us   best {best:6.2f} us{note}")
            current.attach(None)


if __name__ == "__main__":
    main()
