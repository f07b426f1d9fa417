"""Jobs on a made clock: how long each rank works in each step, seen as the probe would see it."""

import random
from collections.abc import Callable
from typing import Any

from unstuck.model.rank import Tempo
from unstuck.observe.node.tempo import TempoMeter

Work = Callable[[int, int], float]
"""Seconds that a rank works in a step."""


def watch(
    work: Work,
    *,
    ranks: int = 4,
    steps: int = 200,
    transfer: float = 0.005,
    beats: float = 0.1,
    counted: bool = True,
    spot: Callable[[int, int], str] = lambda _rank, _step: "train",
) -> list[Tempo]:
    """Let the ranks meet in an all_reduce at the end of each step; give what each rank shows."""
    chance = random.Random(7)
    ends, waits = _play(work, ranks, steps, transfer)
    found: list[Tempo] = []
    for rank in range(ranks):
        meter = TempoMeter()
        now, step = 100.0 + chance.random(), 0
        while step < steps:
            while step < steps and ends[step] <= now:
                step += 1
            waiting = step < steps and now >= waits[rank][step]
            meter.look(_report(now, step, ends, waiting, counted, spot(rank, step)))
            later = now + beats * (0.75 + 0.5 * chance.random())
            if int(later) > int(now):
                meter.tempo(later)  # the agent sends a frame every second
            now = later
        found.append(meter.tempo(now))
    return found


def _play(
    work: Work, ranks: int, steps: int, transfer: float
) -> tuple[list[float], list[list[float]]]:
    """Return when each step ended, and when each rank began to wait in it."""
    ends: list[float] = []
    waits: list[list[float]] = [[] for _ in range(ranks)]
    begun = 100.0
    for step in range(steps):
        for rank in range(ranks):
            waits[rank].append(begun + work(rank, step))
        begun = max(waits[rank][step] for rank in range(ranks)) + transfer
        ends.append(begun)
    return ends, waits


def _report(
    now: float, step: int, ends: list[float], waiting: bool, counted: bool, function: str
) -> dict[str, Any]:
    begun = step + waiting
    return {
        "at": (now, step if counted else 0, ends[step - 1] if step and counted else 0.0),
        "groups": {"0": begun},
        "status": {"0": (begun, step)},
        "p2p_issued": 0,
        "frames": [["/lib/torch/x.py", 1, "f", False], ["train.py", 9, function, True]],
    }
