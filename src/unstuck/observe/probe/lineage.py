"""Which process is a rank: the topmost one that this job's launcher gave its number.

RANK alone does not say so: every process that a rank starts inherits it, and a launcher that runs
inside a rank gives out numbers of its own. What a launcher gives out as a whole does: the number,
the size of the job and the address of its rendezvous. So

- a process whose ancestor was given another number by a launcher is part of a job inside the job,
  and no rank of this one;
- a process whose ancestor is watched is a helper;
- a process whose ancestor has the same number, such as a wrapper script, is the rank if it joins
  the process groups; if it ends before while that ancestor lives, the rank has not ended.
"""

import os
from collections.abc import Iterator, Mapping

IDENTITY = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
WITHIN = "UNSTUCK_WITHIN"
"""`pid:identity` of the first Python process of a rank; also set by sitecustomize."""
PROBED = "UNSTUCK_PROBED"
"""The number of a rank that is watched."""
JOINED = "UNSTUCK_JOINED"
"""The pid of a rank that has called `init_process_group`."""
_MARK = "UNSTUCK_RUN"
_MOST_ANCESTORS = 64


def identity(env: Mapping[str, str]) -> str:
    """Return what a launcher gave to a process, as one text."""
    return "/".join(env.get(name, "") for name in IDENTITY)


def is_inside_another() -> bool:
    """Tell whether this process belongs to a job that was started inside a rank of this one."""
    mine = identity(os.environ)
    pid, _, theirs = os.environ.get(WITHIN, "").partition(":")
    if pid and pid != str(os.getpid()) and theirs != mine:
        return True
    return any(env.get("LOCAL_RANK") and identity(env) != mine for _, env in _ancestors())


def belongs_to_a_watched_rank() -> bool:
    """Tell whether an ancestor that shares this process's number is watched: a helper."""
    return os.environ.get(PROBED) == os.environ.get("RANK")


def may_join() -> bool:
    """Tell whether a process that has process groups now may be a rank by that alone.

    The children of `multiprocessing` may, where their parent has not joined itself: they are what
    it was started for.
    """
    if os.environ.get(JOINED, str(os.getpid())) != str(os.getpid()) or is_inside_another():
        return False
    pid = os.environ.get(WITHIN, "").partition(":")[0]
    if PROBED not in os.environ or pid in ("", str(os.getpid())):
        return True
    import multiprocessing

    return multiprocessing.parent_process() is not None


def claim(*, joined: bool = False) -> None:
    """Let the processes that this rank starts know whose they are."""
    if os.environ.get("LOCAL_RANK"):
        os.environ.setdefault(WITHIN, f"{os.getpid()}:{identity(os.environ)}")
    if joined:
        os.environ.setdefault(JOINED, str(os.getpid()))


def top() -> int:
    """Return the highest ancestor with this process's number; itself if there is none."""
    found, mine = os.getpid(), identity(os.environ)
    for pid, env in _ancestors():
        if identity(env) != mine or not env.get("LOCAL_RANK"):
            break
        found = pid
    return found


def _ancestors() -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the ancestors that belong to this run, with the environment they were started with."""
    mark, pid = os.environ.get(_MARK), os.getppid()
    for _ in range(_MOST_ANCESTORS):
        env = _environment(pid)
        if not mark or env.get(_MARK) != mark:
            return
        yield pid, env
        pid = _parent(pid)


def _environment(pid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/environ", errors="surrogateescape") as file:
            pairs = [one.partition("=") for one in file.read().split("\0")]
    except OSError:
        return {}
    return {name: value for name, _, value in pairs}


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
