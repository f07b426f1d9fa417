"""What a lab that was killed has left behind: control groups, processes, hosts, files."""

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

from unstuck.lab import cgroups, hosts, owner
from unstuck.lab.job import forget_live
from unstuck.lab.owner import MARKER, PREFIX


def sweep() -> list[str]:
    """Remove what the dead have left, and say what it was; the living are not touched.

    Example:
        >>> sweep()
        []
    """
    # Groups first: a frozen process cannot die.
    found = {
        "control group": len(cgroups.sweep()),
        "process": _processes(),
        "host": len(hosts.sweep()),
        "folder": _folders(),
    }
    plural = {"process": "processes"}
    return [
        f"{count} {what if count == 1 else plural.get(what, what + 's')}"
        for what, count in found.items()
        if count
    ]


def _processes() -> int:
    dead = {pid for pid, mark in owner.marked(MARKER) if not owner.alive(mark)}
    for pid in dead:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(dead)


def _folders() -> int:
    left = [
        path
        for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")
        if not owner.alive(path.name.removeprefix(PREFIX))
    ]
    for path in left:
        # A job's own temporary folder has a link to its run directory, wherever that is.
        for link in (*path.glob("**/live-*"), *path.glob("**/run/live-*")):
            forget_live(link.parent)
        shutil.rmtree(path, ignore_errors=True)
    return len(left)
