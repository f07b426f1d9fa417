"""What `unstuck.dist` costs per call on gloo compared to plain torch.

Every rank calls a small `all_reduce` in alternating blocks: plain torch, `unstuck.dist` without a
timeout, with a timeout, with a timeout and private copies. The order changes from round to round,
so that other load on the machine affects all of them alike. The cost is the median over all rounds
of the difference to the plain block of the same round.

A gloo collective takes about 100 us and varies by more than the cost to be measured. So the calls
without a timeout are also measured on torch's `fake` backend, which does nothing.

    python bench/dist_calls.py
"""
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportPrivateImportUsage=false

import random
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import click
import torch
import torch.distributed as bare
from torch import multiprocessing
from torch.testing._internal.distributed.fake_pg import FakeStore

from unstuck import dist as timed

Call = Callable[[torch.Tensor], Any]
FORMS: dict[str, Call] = {
    "plain torch": bare.all_reduce,
    "unstuck.dist": timed.all_reduce,
    "with timeout=60": lambda tensor: timed.all_reduce(tensor, timeout=60),
    "with copy=True": lambda tensor: timed.all_reduce(tensor, timeout=60, copy=True),
}


class Cost(NamedTuple):
    """Microseconds of one call."""

    wall: float
    cpu: float
    """Of the calling thread alone, which does not depend on how busy the machine is."""


def block(call: Call, tensor: torch.Tensor, calls: int) -> Cost:
    """Call many times in a row."""
    began, cpu = time.perf_counter(), time.thread_time()
    for _ in range(calls):
        call(tensor)
    wall, cpu = time.perf_counter() - began, time.thread_time() - cpu
    return Cost(1e6 * wall / calls, 1e6 * cpu / calls)


def measure(rounds: int, calls: int, forms: dict[str, Call]) -> dict[str, list[Cost]]:
    """Alternate between the forms, in the same order on all ranks."""
    order = random.Random(7)  # noqa: S311 - the same in every rank
    tensor = torch.zeros(4)
    found: dict[str, list[Cost]] = {name: [] for name in forms}
    for call in forms.values():
        block(call, tensor, calls // 10 + 1)
    for _ in range(rounds):
        names = list(forms)
        order.shuffle(names)
        for name in names:
            found[name].append(block(forms[name], tensor, calls))
    return found


def rank(number: int, size: int, port: int, rounds: int, calls: int) -> None:
    """Measure on one rank; the first one prints."""
    store = bare.TCPStore("127.0.0.1", port, size, is_master=number == 0)
    timed.init_process_group(
        "gloo", store=store, rank=number, world_size=size, timeout=timedelta(seconds=120)
    )
    found = measure(rounds, calls, FORMS)
    timed.barrier()
    if number == 0:
        show(f"gloo, world {size}", found)
    timed.destroy_process_group()


def show(title: str, found: dict[str, list[Cost]]) -> None:
    """Print a table: medians, and the median difference to plain torch in the same round."""
    base = found["plain torch"]
    print(
        f"\n{title}: {len(base)} rounds, us per call\n{'':18}{'wall':>8}{'added':>8}{'ratio':>8}",
        end="",
    )
    print(f"{'cpu':>10}{'added':>8}")
    for name, values in found.items():
        wall, cpu = (statistics.median(value[kind] for value in values) for kind in (0, 1))
        more, more_cpu = (
            statistics.median(
                value[kind] - other[kind] for value, other in zip(values, base, strict=True)
            )
            for kind in (0, 1)
        )
        ratio = 1 + more / statistics.median(other.wall for other in base)
        print(f"{name:18}{wall:8.1f}{more:8.2f}{ratio:8.3f}{cpu:10.2f}{more_cpu:8.2f}")
    sys.stdout.flush()


@click.command()
@click.option("--worlds", default="2,4", help="World sizes.")
@click.option("--rounds", default=60, help="Blocks of each form.")
@click.option("--calls", default=200, help="Calls in a block.")
def main(worlds: str, rounds: int, calls: int) -> None:
    """Measure on the fake backend, then on gloo."""
    timed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    without = {name: FORMS[name] for name in ("plain torch", "unstuck.dist")}
    show("fake backend, which does nothing", measure(rounds, 10 * calls, without))
    timed.destroy_process_group()
    for size in map(int, worlds.split(",")):
        port = random.randint(20000, 30000)  # noqa: S311
        multiprocessing.spawn(rank, (size, port, rounds, calls), nprocs=size)


if __name__ == "__main__":
    main()
