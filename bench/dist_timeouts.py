"""Timeouts of `unstuck.dist` for every operation: how punctual they are, and whom they name.

For each operation the last rank is late. Every waiting rank notes how long after the call it got
its exception, and which ranks the exception named. Then the late rank arrives and the next
collective is tried on the same group; after that the group is given up while another operation
hangs, rebuilt, and the next collective is tried again.

    python bench/dist_timeouts.py
    python bench/dist_timeouts.py --repeat 5 --world 4 --timeout 1

Goal: within 10 % of the timeout, or 0.2 s. Ranks that only send (senders in `gather`, the root of
`scatter`) do not wait for the missing rank and are not counted.
"""
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportPrivateImportUsage=false

import os
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click
import torch
import torch.distributed as bare
from torch import multiprocessing

from unstuck import dist

Issue = Callable[..., Any]


def operations(size: int, rank: int) -> dict[str, Issue]:
    """Return all operations; the others wait for the last rank."""
    last = size - 1

    def ones(numbers: int = 2) -> torch.Tensor:
        return torch.ones(numbers)

    def many() -> list[torch.Tensor]:
        return [ones() for _ in range(size)]

    def things() -> list[Any]:
        return [None] * size

    root = rank == 0
    late = rank == last
    return {
        "all_reduce": lambda **how: dist.all_reduce(ones(), **how),
        "all_reduce_coalesced": lambda **how: dist.all_reduce_coalesced([ones(), ones()], **how),
        "reduce": lambda **how: dist.reduce(ones(), 0, **how),
        "broadcast": lambda **how: dist.broadcast(ones(), last, **how),
        "all_gather": lambda **how: dist.all_gather(many(), ones(), **how),
        "all_gather_single": lambda **how: dist.all_gather_single(ones(2 * size), ones(), **how),
        "all_gather_into_tensor": lambda **how: dist.all_gather_into_tensor(
            ones(2 * size), ones(), **how
        ),
        "all_gather_coalesced": lambda **how: dist.all_gather_coalesced(
            [[ones()] for _ in range(size)], [ones()], **how
        ),
        "gather": lambda **how: dist.gather(ones(), many() if root else None, 0, **how),
        "scatter": lambda **how: dist.scatter(ones(), many() if late else None, last, **how),
        "reduce_scatter": lambda **how: dist.reduce_scatter(ones(), many(), **how),
        "reduce_scatter_single": lambda **how: dist.reduce_scatter_single(
            ones(), ones(2 * size), **how
        ),
        "reduce_scatter_tensor": lambda **how: dist.reduce_scatter_tensor(
            ones(), ones(2 * size), **how
        ),
        "all_to_all_single": lambda **how: dist.all_to_all_single(
            ones(2 * size), ones(2 * size), **how
        ),
        "all_to_all": lambda **how: dist.all_to_all(many(), many(), **how),
        "barrier": dist.barrier,
        "all_gather_object": lambda **how: dist.all_gather_object(things(), rank, **how),
        "gather_object": lambda **how: dist.gather_object(
            rank, things() if root else None, 0, **how
        ),
        "broadcast_object_list": lambda **how: dist.broadcast_object_list(things(), last, **how),
        "scatter_object_list": lambda **how: dist.scatter_object_list(
            things(), things() if late else None, last, **how
        ),
        "send": lambda **how: _message(rank, last, dist.send, dist.recv, **how),
        "recv": lambda **how: _message(rank, last, dist.recv, dist.send, **how),
        "isend": lambda **how: _message(rank, last, dist.isend, dist.recv, **how),
        "irecv": lambda **how: _message(rank, last, dist.irecv, dist.send, **how),
    }


def _message(rank: int, last: int, call: Issue, answer: Issue, **how: Any) -> None:
    """Exchange one message with the late rank, which answers all others in turn."""
    if rank == last:
        for peer in range(last):
            answer(torch.ones(2), peer, **how)
        return
    work = call(torch.ones(2), last, **how)
    if work is not None and not isinstance(work, int):
        work.wait()


def rank(number: int, size: int, port: int, timeout: float, only: str) -> None:
    """Run all operations; rank 0 collects and prints what the others saw."""
    store = bare.TCPStore("127.0.0.1", port, size, is_master=number == 0)
    dist.init_process_group(
        "gloo", store=store, rank=number, world_size=size, timeout=timedelta(seconds=300)
    )
    warnings.simplefilter("ignore", FutureWarning)  # torch's own, about deprecated names
    late: list[float] = []
    for op, issue in operations(size, number).items():
        if op in only.split(",") or not only:
            dist.barrier()
            seen = _be_late(op, issue, store, number, size, timeout)
            before = _works()
            dist.barrier()
            after = _rebuilt(store, op, number, size)
            rows: list[Any] = [None] * size
            dist.all_gather_object(rows, (seen, before, after))
            if number == 0:
                late += show(op, timeout, rows[: size - 1])
    if number == 0:
        print(f"worst {1000 * max(late):+.0f} ms, median {1000 * statistics.median(late):+.0f} ms")
    dist.destroy_process_group()


def _be_late(
    op: str, issue: Issue, store: Any, number: int, size: int, timeout: float
) -> tuple[float, list[int]] | None:
    if number == size - 1:
        for other in range(size - 1):
            store.get(f"{op}/{other}")
        issue()
        return None
    began = time.monotonic()
    try:
        issue(timeout=timeout)
    except dist.CollectiveTimeout as error:
        seen = time.monotonic() - began, error.missing
        store.set(f"{op}/{number}", "timed out")
        error.work.wait(timeout=120)
        return seen
    store.set(f"{op}/{number}", "did not wait")
    return None


def _rebuilt(store: Any, op: str, number: int, size: int) -> bool:
    """Give up a hanging operation, rebuild, and try the next one."""
    if number < size - 1:
        try:
            dist.all_reduce(torch.ones(1), timeout=0.1)
        except dist.CollectiveTimeout as error:
            error.give_up()
        except RuntimeError:
            pass  # another rank gave up first
        store.set(f"{op}/given up/{number}", "yes")
    for other in range(size - 1):
        store.get(f"{op}/given up/{other}")
    dist.rebuild(timeout=60)
    return _works()


def _works() -> bool:
    tensor = torch.ones(1)
    dist.all_reduce(tensor, timeout=60)
    return bool(tensor.item() == dist.get_world_size())


def show(op: str, timeout: float, rows: list[Any]) -> list[float]:
    """Print one line; return by how many seconds the exceptions were late."""
    waited = {number: row[0] for number, row in enumerate(rows) if row[0] is not None}
    late = " ".join(
        f"{1000 * (waited[n][0] - timeout):+7.0f}" if n in waited else f"{'-':>7}"
        for n in range(len(rows))
    )
    named = sorted({tuple(row[1]) for row in waited.values()})
    good = all(s - timeout <= max(0.1 * timeout, 0.2) for s, _ in waited.values())
    before, after = (all(row[place] for row in rows) for place in (1, 2))
    words = " ".join(",".join(map(str, each)) or "nobody" for each in named)
    print(f"{op:24}{timeout:8.2f}  {late}  {words:10}{_yes(good):8}{_yes(before):8}{_yes(after)}")
    sys.stdout.flush()
    return [seconds - timeout for seconds, _ in waited.values()]


def _yes(good: bool) -> str:
    return "yes" if good else "NO"


@click.command()
@click.option("--repeat", default=1, help="How often to run everything.")
@click.option("--world", default=3, help="Ranks; the last one is late.")
@click.option("--timeout", default=1.0, help="Seconds for each operation.")
@click.option("--only", default="", help="Operations, separated by commas.")
def main(repeat: int, world: int, timeout: float, only: str) -> None:
    """Print a table per run."""
    # torch looks up the name of every peer; a slow name server would delay the first roll call.
    os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
    for run in range(repeat):
        ranks = "".join(f"{f'rank {n}':>8}" for n in range(world - 1))
        print(f"\nrun {run + 1}: exception after the timeout by, in ms; next collective works")
        print(
            f"{'operation':24}{'timeout':>8} {ranks}  {'named':10}{'in time':8}{'before':8}rebuilt"
        )
        sys.stdout.flush()
        port = random.randint(20000, 30000)  # noqa: S311
        multiprocessing.spawn(rank, (world, port, timeout, only), nprocs=world)


if __name__ == "__main__":
    main()
