"""What jobs that have ended left on this machine, and which software there is."""

import os
import platform
import time
from importlib import metadata
from pathlib import Path

from unstuck.model.health import Check, Rating
from unstuck.observe.machine.memory import SHM, amount
from unstuck.observe.node.process import procfs
from unstuck.observe.outside import rank_processes

_PACKAGES = ("torch", "unstuck", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-nccl-cu11")
_FILES = ("torch_", "nccl-", "psm_", "unstuck-", "sem.mp-", "cuda.shm")
_OLD = 60.0
"""Seconds: a file that is younger may belong to a job that just starts."""


def software() -> Check:
    """List the versions that must agree on all machines; torch is not imported for this."""
    found = [f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    missing = not any(one.startswith("torch ") for one in found)
    text = ", ".join(found)
    if missing:
        return Check("versions", Rating.WARNING, f"{text}; no torch", "use the job's environment")
    return Check("versions", Rating.OK, text)


def processes() -> Check:
    """Find ranks whose launcher is gone: they hold ports, memory and GPUs."""
    orphans = {
        job: [one for one in ranks if (stat := procfs.stat(one.pid)) and stat.parent == 1]
        for job, ranks in rank_processes.find().items()
    }
    left = {job: ranks for job, ranks in orphans.items() if ranks}
    if not left:
        return Check("leftovers", Rating.OK, "no ranks without a launcher")
    told = "; ".join(
        f"rank {', '.join(str(r.rank) for r in ranks)} of {job}" for job, ranks in left.items()
    )
    pids = " ".join(str(one.pid) for ranks in left.values() for one in ranks)
    text = f"ranks without a launcher: {told}"
    return Check("leftovers", Rating.WARNING, text, f"if nobody needs them: kill -9 {pids}")


def files(folder: Path = SHM) -> Check | None:
    """Find files in shared memory that no process has mapped any more."""
    try:
        found = [one for one in folder.iterdir() if one.name.startswith(_FILES)]
        sizes = {str(one): one.stat().st_size for one in found if _is_old(one)}
    except OSError:
        return None
    left = {path: size for path, size in sizes.items() if path not in _mapped()} if sizes else {}
    if not left:
        return None
    text = f"{len(left)} files of ended jobs in {folder}, {amount(sum(left.values()))}"
    fix = f"if no job runs: rm {' '.join(sorted(left)[:3])}" + (" ..." if len(left) > 3 else "")
    return Check("leftovers", Rating.WARNING, text, fix)


def _is_old(file: Path) -> bool:
    return file.is_file() and time.time() - file.stat().st_mtime > _OLD


def _mapped() -> str:
    """Return all mappings of all processes that this user may see, as one text."""
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    return "\n".join(procfs.read(f"/proc/{pid}/maps") for pid in pids)
