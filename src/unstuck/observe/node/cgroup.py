"""The control group of a process: has the kernel's out-of-memory killer been at work?"""

import contextlib
from pathlib import Path


def oom_kills(pid: int) -> int:
    """Kills by the out-of-memory killer in the process's cgroup so far; 0 where unknown."""
    for events in _event_files(pid):
        with contextlib.suppress(OSError, ValueError):
            for line in events.read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
    return 0


def _event_files(pid: int) -> list[Path]:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return []
    files: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            files.append(Path("/sys/fs/cgroup" + path) / "memory.events")
        elif "memory" in controllers.split(","):
            files.append(Path("/sys/fs/cgroup/memory" + path) / "memory.oom_control")
    return files
