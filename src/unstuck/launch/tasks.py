"""One `unstuck run` per rank: what `mpirun` and `srun` say of the job to each of its tasks."""

import os
import zlib
from collections.abc import Mapping
from typing import NamedTuple

_FIRST_PORT, _PORTS = 20000, 12000
"""Below the ports that systems give to clients by themselves."""


class Task(NamedTuple):
    """One of several tasks that a launcher has started."""

    rank: int
    size: int
    here: int
    """How many of them are on this node; 0 if not known."""
    job: str
    """What all of them, and no other job, have in common."""
    first_host: str = ""

    @property
    def several_nodes(self) -> bool:
        """True unless all tasks are known to be on this node."""
        return self.here < self.size

    @property
    def port(self) -> int:
        """A port for the hub of a job on one node, which all of its tasks find."""
        return _FIRST_PORT + zlib.crc32(self.job.encode()) % _PORTS


def read(env: Mapping[str, str]) -> Task | None:
    """Return which task of which job this process is; None if it is none of several.

    Example:
        >>> read({"SLURM_PROCID": "1", "SLURM_NTASKS": "8"}) is None  # no step: a batch script
        True
    """
    found = _open_mpi(env) or _slurm(env) or _mpich(env)
    return found if found and found.size > 1 else None


def _open_mpi(env: Mapping[str, str]) -> Task | None:
    if "OMPI_COMM_WORLD_RANK" not in env:
        return None
    job = env.get("OMPI_MCA_ess_base_jobid") or env.get("PMIX_NAMESPACE", "")
    return Task(
        _number(env, "OMPI_COMM_WORLD_RANK"),
        _number(env, "OMPI_COMM_WORLD_SIZE"),
        _number(env, "OMPI_COMM_WORLD_LOCAL_SIZE"),
        f"mpi|{job}",
    )


def _slurm(env: Mapping[str, str]) -> Task | None:
    """Of a step alone: a batch script has most of these variables too, and is no task."""
    if "SLURM_STEP_NUM_TASKS" not in env:
        return None
    size = _number(env, "SLURM_STEP_NUM_TASKS")
    hosts = env.get("SLURM_STEP_NODELIST", "")
    return Task(
        _number(env, "SLURM_PROCID"),
        size,
        size if env.get("SLURM_STEP_NUM_NODES") == "1" else 0,
        f"slurm|{env.get('SLURM_JOB_ID', '')}|{env.get('SLURM_STEP_ID', '')}",
        "" if "[" in hosts else hosts.partition(",")[0],
    )


def _mpich(env: Mapping[str, str]) -> Task | None:
    """Hydra names no job, but all of its tasks on a node have one parent."""
    if "PMI_RANK" not in env:
        return None
    here = _number(env, "MPI_LOCALNRANKS")
    return Task(_number(env, "PMI_RANK"), _number(env, "PMI_SIZE"), here, f"pmi|{os.getppid()}")


def _number(env: Mapping[str, str], name: str) -> int:
    text = env.get(name, "")
    return int(text) if text.isdigit() else 0
