"""The number of a rank whose script tells it only in `init_process_group`.

Who started the process knows it before: an MPI launcher by its variables, `unstuck run` where it
was itself started once per rank, `torch.multiprocessing.spawn` by the index of the child. So a rank
that never gets as far as joining can be named all the same. What the script says later counts.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from typing import Any

VARIABLE = "UNSTUCK_TASK"
"""`rank/size`, from an `unstuck run` that was started once per rank."""
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
)
"""Set for the tasks alone. Slurm sets its own also where it has started no task yet."""


def by_launcher(env: Mapping[str, str]) -> tuple[int, int] | None:
    """Return rank and size of the job, if this process is one of several tasks.

    Example:
        >>> by_launcher({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"})
        (1, 2)
    """
    known = [env.get(VARIABLE, "").partition("/")[::2]]
    known += [(env.get(rank, ""), env.get(size, "")) for rank, size in _LAUNCHERS]
    for rank, size in known:
        if rank.isdigit() and size.isdigit() and int(size) > 1:
            return int(rank), int(size)
    return None


def in_spawned_children(tell: Callable[[int], None]) -> None:
    """Have `tell` called with its index in every child that torch spawns, before its work."""
    original = BaseProcess.run

    @functools.wraps(original)
    def run(self: Any) -> None:
        with contextlib.suppress(Exception):
            if getattr(self._target, "__module__", "") == "torch.multiprocessing.spawn":
                tell(int(self._args[1]))
        original(self)

    BaseProcess.run = run
