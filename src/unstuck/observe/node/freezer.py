"""The freezer of a control group: `docker pause`, a scheduler that suspends a job.

/proc does not show it: a frozen process seems asleep, or in state D.
"""

import contextlib
from pathlib import Path


def frozen(pid: int) -> bool:
    """Tell whether a freezer holds the process.

    Example:
        >>> import os
        >>> frozen(os.getpid())
        False
    """
    for path, word in _files(pid):
        with contextlib.suppress(OSError):
            if word in path.read_text().splitlines():
                return True
    return False


def _files(pid: int) -> list[tuple[Path, str]]:
    """Give the files that tell, for both versions, and the line in each that means frozen."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return []
    files: list[tuple[Path, str]] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mounts = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
            files += [(Path(mount + path) / "cgroup.events", "frozen 1") for mount in mounts]
        elif "freezer" in controllers.split(","):
            files.append((Path("/sys/fs/cgroup/freezer" + path) / "freezer.state", "FROZEN"))
    return files
