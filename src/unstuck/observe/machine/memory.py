"""Shared memory, main memory, and what the limits of a container leave of them."""

import os
from pathlib import Path

from unstuck.model.health import Check, Rating
from unstuck.observe.node.process import procfs

SHM = Path("/dev/shm")  # noqa: S108 - looked at, never written to
_GIB = 1 << 30
_LEAST_SHM = 1 * _GIB
"""Docker gives 64 MB; one batch of a DataLoader worker may be more than that."""
_LEAST_FREE = 2 * _GIB
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def shared_memory(path: Path = SHM) -> Check:
    """Check the size of /dev/shm: DataLoader workers and NCCL exchange data there.

    Example:
        shared_memory().rating
    """
    fix = (
        "docker run --shm-size=16g (or --ipc=host); Kubernetes: an emptyDir of medium Memory at "
        "/dev/shm; else: mount -o remount,size=50% /dev/shm"
    )
    try:
        found = os.statvfs(path)
    except OSError as error:
        text = f"cannot be looked at: {(error.strerror or '').lower()}"
        return Check(str(SHM), Rating.BAD, text, fix)
    size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    text = f"{amount(size)}, {amount(free)} free"
    if not os.access(path, os.W_OK):
        return Check(str(SHM), Rating.BAD, f"{text}; not writable", fix)
    if size < _LEAST_SHM:
        why = "DataLoader workers die with `Bus error`, and NCCL cannot start"
        return Check(str(SHM), Rating.BAD, f"{text}: {why}", fix)
    if free < size / 10 or free < _LEAST_SHM / 4:
        remedy = "remove what ended jobs left there: see leftovers below, and ls -l /dev/shm"
        return Check(str(SHM), Rating.WARNING, f"{text}: nearly full", remedy)
    return Check(str(SHM), Rating.OK, text)


def main_memory() -> Check:
    """Check the memory that is available, within the limit of the container."""
    lines = (line.split() for line in procfs.read("/proc/meminfo").splitlines())
    found = {words[0]: int(words[1]) << 10 for words in lines if len(words) > 1}
    free, total = found.get("MemAvailable:", 0), found.get("MemTotal:", 0)
    text = f"{amount(free)} of {amount(total)} available"
    for limit, used in _CGROUPS:
        most, now = procfs.read(limit), procfs.read(used)
        if most.isdigit() and now.isdigit() and int(most) < total:
            free = min(free, int(most) - int(now))
            text += f", limited to {amount(int(most))} by the container"
    if free < _LEAST_FREE:
        fix = "end what uses it (ps aux --sort=-rss | head), or raise the container's limit"
        return Check("memory", Rating.WARNING, f"{text}: the kernel may kill ranks", fix)
    return Check("memory", Rating.OK, text)


def amount(size: float) -> str:
    """Write a number of bytes.

    Example:
        >>> amount(64 << 20)
        '64 MiB'
    """
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    unit = units[0]
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
