"""Limits of this user, and whether ranks may be looked into."""

import ctypes
import resource
from pathlib import Path

from unstuck.model.health import Check, Rating
from unstuck.observe.node.process import procfs
from unstuck.observe.outside import pyspy

_LEAST_FILES = 4096
"""Each pair of ranks has a socket, each DataLoader worker several files."""
_LEAST_TASKS = 4096
_INFINIBAND = Path("/sys/class/infiniband")
_SYS_PTRACE = 19
_STA_UNSYNC = 0x40


def open_files() -> Check:
    """Check how many files a process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _LEAST_FILES:
        return Check("open files", Rating.OK, f"{_limit(soft)} for each process")
    fix = (
        f"ulimit -n {min(hard, 65536) if hard > 0 else 65536}, or docker run --ulimit nofile=65536"
    )
    text = f"{soft} for each process: large groups end with `Too many open files`"
    return Check("open files", Rating.WARNING, text, fix)


def processes() -> Check:
    """Check how many processes and threads this user may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    most = procfs.read("/sys/fs/cgroup/pids.max")
    allowed = min([one for one in (soft, int(most) if most.isdigit() else -1) if one > 0] or [-1])
    if allowed < 0 or allowed >= _LEAST_TASKS:
        return Check("processes", Rating.OK, f"{_limit(allowed)} for this user")
    text = f"{allowed} for this user: a rank has tens of threads"
    return Check(
        "processes", Rating.WARNING, text, "ulimit -u 65536, or docker run --pids-limit -1"
    )


def locked_memory(infiniband: Path = _INFINIBAND) -> Check | None:
    """Check how much memory may be locked, where there is InfiniBand, which needs it all."""
    if not infiniband.is_dir() or not any(infiniband.iterdir()):
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY:
        return Check("locked memory", Rating.OK, "unlimited")
    fix = "ulimit -l unlimited, or docker run --ulimit memlock=-1"
    text = f"{soft >> 10} KiB: NCCL cannot register memory with InfiniBand"
    return Check("locked memory", Rating.BAD, text, fix)


def looking_into_ranks() -> Check:
    """Check whether stacks of ranks can be read from outside, as `unstuck attach` does."""
    if not pyspy.program():
        text = "py-spy is not installed, so unstuck attach has no stacks"
        return Check("stacks", Rating.WARNING, text, "pip install 'unstuck[stacks]'")
    scope = procfs.read("/proc/sys/kernel/yama/ptrace_scope") or "0"
    if scope == "0" or has_capability(_SYS_PTRACE):
        return Check("stacks", Rating.OK, "processes of this user may be looked into")
    text = f"kernel.yama.ptrace_scope is {scope}: only root may look into running ranks"
    fix = "sudo unstuck attach, or: sudo sysctl kernel.yama.ptrace_scope=0"
    return Check("stacks", Rating.WARNING, text, fix)


def has_capability(number: int) -> bool:
    """Tell whether this process has a capability of root.

    Example:
        has_capability(19)  # CAP_SYS_PTRACE
    """
    _, _, rest = procfs.read("/proc/self/status").partition("CapEff:")
    return bool(rest) and bool(int(rest.split()[0], 16) >> number & 1)


def clock() -> Check:
    """Check whether the kernel says that something keeps the clock right."""
    state = _clock_status()
    if state is None:
        return Check("clock", Rating.UNKNOWN, "the kernel does not say whether it is kept right")
    if state & _STA_UNSYNC:
        text = "nothing keeps it right (NTP): logs of several machines cannot be put in order"
        return Check("clock", Rating.WARNING, text, "start chronyd or systemd-timesyncd")
    return Check("clock", Rating.OK, "kept right by NTP")


def _clock_status() -> int | None:
    # struct timex: an int and four longs before the status, on machines of 64 bits.
    buffer = (ctypes.c_int * 64)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(ctypes.byref(buffer)) < 0:
        return None
    return int(buffer[10])


def _limit(value: int) -> str:
    return "unlimited" if value < 0 or value == resource.RLIM_INFINITY else f"{value:,}"
