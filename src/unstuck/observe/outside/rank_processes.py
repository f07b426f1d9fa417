"""Which processes of this machine are ranks, and of which job: nothing but /proc is read.

Launchers say it in the environment: torchrun, Slurm and MPI each with their own variables. Ranks
that the script itself spawned have none; they are known by the threads that a process group starts.
"""

import os
import pwd
from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from unstuck.errors import UserError
from unstuck.observe.node.process import procfs
from unstuck.observe.outside import nccl_ras

_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)
"""Rank, world size, rank and ranks on this node. The more specific first: torchrun below srun."""
_ENDPOINT = ("MASTER_ADDR", "MASTER_PORT")
_IDS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "RAY_JOB_ID")
_NO_ID = ("", "none", "default")
_NCCL_THREADS = ("pt_nccl", "nccl", "NCCL")
_GROUP_THREADS = ("gloo_", "pt_gloo", *_NCCL_THREADS)


class RankProcess(Struct, frozen=True):
    """One rank of one job on this machine."""

    pid: int
    rank: int
    world_size: int = 0
    local_rank: int = 0
    local_size: int = 0
    """How many ranks its launcher starts here; 0 if it does not say."""
    job: str = ""
    """The same for all ranks of a job, on all its nodes: `node0:29500`."""
    ids: tuple[str, ...] = ()
    """What the job may be called on the command line: the run's id, the scheduler's number."""
    dump: str = ""
    """The file into which torch would write this rank's flight recorder."""
    ras: tuple[str, int] = ("localhost", nccl_ras.PORT)
    """Where NCCL would give account of the job."""
    watched_in: str = ""
    """The live directory, where `unstuck run` watches this job."""
    by_torch: bool = False
    """torchrun gave it its number, or something that speaks like torchrun."""
    guessed: bool = False
    """Its number is the order in which the ranks were started: no launcher gave one."""


def find(pids: Iterable[int] = (), job: str = "") -> dict[str, list[RankProcess]]:
    """Find the jobs with ranks on this machine; those of the given processes, or of that id.

    A launcher stands for the ranks below it, and a rank for its whole job.

    Raises:
        UserError: there is no such process, or it is neither a rank nor has ranks below it.

    Example:
        find([4711])  # {"127.0.0.1:29500": [RankProcess(4712, 0, …), RankProcess(4713, 1, …)]}
    """
    parents = _parents()
    jobs = _jobs(parents)
    wanted = list(pids)
    if wanted:
        names = dict.fromkeys(_job_of(pid, parents, jobs) for pid in wanted)
        jobs = {name: jobs[name] for name in names}
    if job:
        jobs = {name: ranks for name, ranks in jobs.items() if job in (name, *ranks[0].ids)}
    return jobs


def in_group(pid: int) -> bool:
    """Tell whether a process has threads of gloo or NCCL: it has joined a process group."""
    return any(name.startswith(_GROUP_THREADS) for name in _thread_names(pid))


def uses_nccl(pid: int) -> bool:
    """Tell whether a process has threads of NCCL."""
    return any(name.startswith(_NCCL_THREADS) for name in _thread_names(pid))


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := procfs.stat(int(name))) and stat.state not in "ZX":
            found[int(name)] = stat.parent
    return found


def _jobs(parents: Mapping[int, int]) -> dict[str, list[RankProcess]]:
    named = [one for pid in parents if (one := _named(pid))]
    known = {one.pid for one in named}
    # torchrun below srun has a number of Slurm's itself, and ranks with torchrun's own below.
    by_torch = {pid for one in named if one.by_torch for pid in _above(one.pid, parents)}
    same: dict[tuple[str, int], list[RankProcess]] = defaultdict(list)
    for one in named:
        if one.by_torch or one.pid not in by_torch:
            same[one.job, one.rank].append(one)
    jobs: dict[str, list[RankProcess]] = defaultdict(list)
    for (job, _), several in same.items():
        jobs[job].append(_outermost(several, parents))
    spawned: dict[int, list[int]] = defaultdict(list)
    for pid, parent in parents.items():
        # Below a rank that is known, it is a helper of that one.
        if pid not in known and not known & {*_above(pid, parents)} and in_group(pid):
            spawned[parent].append(pid)
    for parent, children in spawned.items():
        jobs[f"pid {parent}"] = _numbered(parent, children)
    return {job: sorted(ranks, key=lambda one: one.rank) for job, ranks in sorted(jobs.items())}


def _named(pid: int) -> RankProcess | None:
    env = procfs.environ(pid)
    given = [names for names in _VARIABLES if env.get(names[0], "").isdigit()]
    if not given or not _runs_python(pid):
        return None
    rank, world, local, size = given[0]
    ids = tuple(env[name] for name in _IDS if env.get(name, "") not in _NO_ID)
    endpoint = ":".join(env[name] for name in _ENDPOINT if env.get(name))
    return RankProcess(
        pid=pid,
        rank=int(env[rank]),
        world_size=_number(env.get(world, "")),
        local_rank=_number(env.get(local, "")),
        local_size=_number(env.get(size, "")),
        job=endpoint or " ".join(ids[:1]) or f"session {os.getsid(pid)}",
        ids=ids,
        dump=_dump_file(env, env[rank]),
        by_torch=rank == "RANK",
        ras=nccl_ras.address(env),
        watched_in=env.get("UNSTUCK_LIVE_DIR", ""),
    )


def _dump_file(env: Mapping[str, str], rank: str) -> str:
    prefix = env.get("TORCH_FR_DUMP_TEMP_FILE") or env.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    return f"{prefix}{rank}" if prefix else ""


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _runs_python(pid: int) -> bool:
    """Tell a rank from the shell around it, which has the same environment."""
    words = procfs.read(f"/proc/{pid}/cmdline").split("\0")
    program = os.path.basename(words[0])
    return program.startswith("python") or procfs.read(f"/proc/{pid}/comm").startswith("python")


def _outermost(several: list[RankProcess], parents: Mapping[int, int]) -> RankProcess:
    """Choose the rank among processes with its number: its workers inherit the environment."""
    joined = [one for one in several if in_group(one.pid)] or several
    pids = {one.pid for one in joined}
    top = [one for one in joined if pids.isdisjoint(_above(one.pid, parents))]
    return min(top or joined, key=lambda one: one.pid)


def _numbered(parent: int, children: list[int]) -> list[RankProcess]:
    started = {pid: stat.started for pid in children if (stat := procfs.stat(pid))}
    ordered = sorted(started, key=lambda pid: (started[pid], pid))
    return [
        RankProcess(
            pid=pid,
            rank=rank,
            world_size=len(ordered),
            local_rank=rank,
            job=f"pid {parent}",
            ids=(str(parent),),
            guessed=True,
        )
        for rank, pid in enumerate(ordered)
    ]


def _job_of(pid: int, parents: Mapping[int, int], jobs: Mapping[str, list[RankProcess]]) -> str:
    if pid not in parents:
        raise UserError(f"there is no process {pid} here", hint="list them with: unstuck attach")
    for job, ranks in jobs.items():
        for one in ranks:
            # A rank, a launcher above it, or a worker below it.
            if pid in (one.pid, *_above(one.pid, parents)) or one.pid in _above(pid, parents):
                return job
    owner = os.stat(f"/proc/{pid}").st_uid
    if os.geteuid() not in (0, owner):
        raise UserError(
            f"process {pid} belongs to {_user(owner)}; only its owner and root may look into it",
            hint=f"sudo unstuck attach {pid}",
        )
    what = procfs.command(f"/proc/{pid}/cmdline") or procfs.read(f"/proc/{pid}/comm")
    raise UserError(
        f"process {pid} ({what}) is not a rank and has no ranks below it",
        hint="give the pid of a rank or of its launcher; unstuck attach lists the jobs it finds",
    )


def _above(pid: int, parents: Mapping[int, int]) -> list[int]:
    found: list[int] = []
    while (pid := parents.get(pid, 0)) > 1 and pid not in found:
        found.append(pid)
    return found


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _thread_names(pid: int) -> list[str]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [procfs.read(f"/proc/{pid}/task/{thread}/comm") for thread in threads]
