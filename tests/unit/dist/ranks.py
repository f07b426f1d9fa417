"""Real ranks for tests: processes that join a gloo group, play a scene and return what they saw.

They are forked from a server that has imported torch once, so starting a world takes about 50 ms.
The store lives in the test process, as torchrun's does in the launcher, so it outlives the ranks.
"""

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

Scene = Callable[..., Any]
GROUP_TIMEOUT = timedelta(seconds=60)


class Rank:
    """What a scene gets: its rank, and points at which ranks meet without a collective."""

    def __init__(self, rank: int, size: int, store: Any) -> None:
        self.rank, self.size, self.store = rank, size, store

    def reach(self, point: str) -> None:
        """Note that this rank has reached a point."""
        self.store.set(f"point/{point}/{self.rank}", "here")

    def wait_for(self, point: str, ranks: Sequence[int]) -> None:
        """Wait until ranks have reached a point."""
        for rank in ranks:
            self.store.get(f"point/{point}/{rank}")

    def others(self) -> list[int]:
        """Return the other ranks."""
        return [rank for rank in range(self.size) if rank != self.rank]


def play(size: int, scene: Scene, *args: Any, seconds: float = 90) -> dict[int, Any]:
    """Run a scene in every rank; return what each returned, or `exit N` for one that died."""
    from torch._C._distributed_c10d import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = _context()
    started: dict[int, tuple[Any, Connection]] = {}
    for rank in range(size):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_rank, args=(rank, size, store.port, scene, args, theirs), daemon=True
        )
        process.start()
        theirs.close()
        started[rank] = (process, ours)
    until = time.monotonic() + seconds
    try:
        return {rank: _outcome(*each, until) for rank, each in started.items()}
    finally:
        for process, _ in started.values():
            process.kill()
            process.join()


def _outcome(process: Any, said: Connection, until: float) -> Any:
    if not said.poll(max(0.0, until - time.monotonic())):
        raise AssertionError(f"{process.name} has not ended in time")
    try:
        failed, value = said.recv()
    except EOFError:
        process.join(5)
        return f"exit {process.exitcode}"
    assert not failed, f"{process.name} failed:\n{value}"
    return value


def _rank(
    rank: int, size: int, port: int, scene: Scene, args: tuple[Any, ...], said: Connection
) -> None:
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    from unstuck import dist
    from unstuck.dist.missing import blame

    # As under torchrun. In pytest's process group, the kernel would wake a stopped rank (SIGCONT)
    # as soon as the shell that started pytest has ended and the group is an orphan.
    os.setsid()
    blame.PATIENCE = 15.0  # a test machine may be very busy; bench/ measures how fast it is
    faulthandler.dump_traceback_later(80)
    try:
        os.environ["RANK"] = str(rank)
        client: Any = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
        points = PrefixStore("test", client.clone())
        dist.init_process_group(
            "gloo", store=client, rank=rank, world_size=size, timeout=GROUP_TIMEOUT
        )
        dist.barrier()  # a rank that gives up at once would keep the others from joining
        value = scene(Rank(rank, size, points), *args)
        points.add("done", 1)
        # Nobody leaves while another rank is still in the scene.
        while int(points.add("done", 0)) < size and not _lonely(points):
            time.sleep(0.005)
        said.send((False, value))
        dist.leave()
    except BaseException:  # noqa: BLE001 - the test has to see every error
        with contextlib.suppress(OSError):
            said.send((True, traceback.format_exc()))
    finally:
        said.close()
        os.kill(os.getpid(), signal.SIGKILL)


def _lonely(points: Any) -> bool:
    """Tell whether a rank of the scene is known to be dead or stopped."""
    return bool(points.check(["lonely"]))


@cache
def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed", "unstuck.dist", "ranks"])
    return context
